"""
Rows of progress → findings: what every health rule says of every query and source.

A book is pure: no clock, no files. It learns the batches in their order and remembers of them what
its rules need, so that a fresh book which learns the whole history of an epoch says the same as one
that has lived through it. What a rule says is a function of the rows learnt and of the status at
hand, never of how often anybody asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.rules import words as rule_words
from airflow_streaming.core.rules.commit_age import commit_age_finding
from airflow_streaming.core.rules.course import Course
from airflow_streaming.core.rules.figures import is_per_source, parts_of, parts_of_sources
from airflow_streaming.core.rules.rule import Finding, HealthRule, Metric, RuleState, key_of
from airflow_streaming.core.rules.timeline import Moment, Span, Timeline
from airflow_streaming.core.rules.tracks import BatchTrack, RateTrack
from airflow_streaming.core.status import QueryStatus, Status

_MAX_WAITING: Final = 5_000
"""Rows kept of a query of which no status has told the processing interval yet."""

_MAX_SOURCES: Final = 100
"""Sources of a query that are told apart."""

Track = BatchTrack | RateTrack


class RuleBook:
    """
    Every rule of a stream, held against the progress of one epoch.

    :param rules: The rules; their names are unique.
    :param firing: Where the history before the first row is not learnt: what fired then, by the
        key of its finding, and since when.
    """

    def __init__(
        self, rules: Sequence[HealthRule], *, firing: Mapping[str, datetime] | None = None
    ) -> None:
        self._rules, self._firing = tuple(rules), firing or {}
        self._queries: dict[str, _QueryBook] = {}

    def learn(self, row: BatchProgress) -> None:
        """Take the next batch of a query; one that is known already changes nothing."""
        self._book_of(row.query).learn(row)

    def meet(self, status: Status) -> dict[str, Moment]:
        """Learn what the queries are, and return what time it is for each."""
        queries = _by_name(status)
        return {name: self._book_of(name).meet(query, status) for name, query in queries.items()}

    def findings(self, status: Status) -> tuple[Finding, ...]:
        """Return what every rule says at the time of a status, in the order of the rules."""
        queries, moments = _by_name(status), self.meet(status)
        found: list[Finding] = []
        for rule in self._rules:
            told = [query for name, query in queries.items() if rule.query in (None, name)]
            for query in told:
                book, moment = self._queries[query.name], moments[query.name]
                found += book.findings(rule, query, moment)
            if not told:
                found.append(_of_nobody(rule, list(queries)))
        return tuple(found)

    def _book_of(self, query: str) -> _QueryBook:
        if query not in self._queries:
            rules = [rule for rule in self._rules if rule.query in (None, query)]
            self._queries[query] = _QueryBook(query, rules, self._firing)
        return self._queries[query]


class _QueryBook:
    """What is remembered of one query."""

    def __init__(self, name: str, rules: list[HealthRule], firing: Mapping[str, datetime]) -> None:
        self._name, self._line, self._firing = name, Timeline(), firing
        rules = [rule for rule in rules if rule.metric is not Metric.COMMIT_AGE_SECONDS]
        self._whole = {r.name: _track(r) for r in rules if not is_per_source(r)}
        self._by_source: dict[str, dict[str, Track]] = {
            rule.name: {} for rule in rules if is_per_source(rule)
        }
        self._rules = {rule.name: rule for rule in rules}
        self._latest: BatchProgress | None = None
        self._waiting: deque[BatchProgress] | None = deque(maxlen=_MAX_WAITING)

    def learn(self, row: BatchProgress) -> None:
        if self._waiting is not None:
            self._waiting.append(row)
            return
        span = self._line.place(row)
        if span is None:
            return
        if self._latest is None:
            for name, track in self._whole.items():
                self._go_on(track, key_of(name, self._name), span)
        self._latest = row
        first = self._line.first or 0.0
        for track in self._whole.values():
            track.learn(span, parts_of(track.rule, row, span, self._line.interval), first)
        for name, tracks in self._by_source.items():
            self._learn_sources(self._rules[name], tracks, row, span)

    def _learn_sources(
        self, rule: HealthRule, tracks: dict[str, Track], row: BatchProgress, span: Span
    ) -> None:
        told = parts_of_sources(rule.metric, row)
        for source in told:
            if source not in tracks and len(tracks) < _MAX_SOURCES and _speaks_of(rule, source):
                tracks[source] = _track(rule)
                self._go_on(tracks[source], key_of(rule.name, self._name, source), span)
        for source, track in tracks.items():
            track.learn(span, told.get(source), self._line.first or 0.0)

    def _go_on(self, track: Track, key: str, span: Span) -> None:
        if key in self._firing:
            track.course.fire(min(self._firing[key].timestamp(), span.start))

    def meet(self, query: QueryStatus, status: Status) -> Moment:
        """Learn the query's interval, with it the rows that waited for it, and what time it is."""
        self._line.interval = max(0.0, query.processing_interval_s or 0.0)
        waiting, self._waiting = self._waiting, None
        for row in waiting or ():
            self.learn(row)
        return self._line.moment(query, status)

    def findings(self, rule: HealthRule, query: QueryStatus, moment: Moment) -> Iterator[Finding]:
        if not query.active:
            reason = f"{rule_words.subject(self._name)} has ended."
            yield _unknown(rule, self._name, reason)
        elif rule.metric is Metric.COMMIT_AGE_SECONDS:
            yield commit_age_finding(rule, query, moment, self._line)
        elif rule.name in self._whole:
            yield self._finding(rule, self._whole[rule.name], moment)
        else:
            yield from self._source_findings(rule, moment)

    def _source_findings(self, rule: HealthRule, moment: Moment) -> Iterator[Finding]:
        tracks = self._by_source[rule.name]
        present = {} if self._latest is None else {s.source: 0 for s in self._latest.sources}
        current = [source for source in present if source in tracks]
        for source in current:
            yield self._finding(rule, tracks[source], moment, source)
        if not current:
            yield _unknown(rule, self._name, self._no_source(rule, list(present)))

    def _no_source(self, rule: HealthRule, present: list[str]) -> str:
        who = rule_words.subject(self._name)
        if self._latest is None:
            return _NO_BATCH.format(who)
        if not present:
            return f"Spark has not reported sources for query {self._name!r}."
        return (
            f"{who} has no source whose description contains {rule.source!r}; it has "
            f"{rule_words.names(present)}."
        )

    def _finding(
        self, rule: HealthRule, track: Track, moment: Moment, source: str | None = None
    ) -> Finding:
        course = track.course_at(moment)
        if course.state is RuleState.UNKNOWN:
            reason = self._why_unknown(rule, track, moment, rule_words.subject(self._name, source))
            return _unknown(rule, self._name, reason, source)
        return self._known(rule, course, moment, source)

    def _known(
        self, rule: HealthRule, course: Course, moment: Moment, source: str | None
    ) -> Finding:
        who = rule_words.subject(self._name, source)
        bad_for = moment.now - course.bad_since
        return Finding(
            rule=rule.name,
            state=course.state,
            severity=rule.severity,
            query=self._name,
            source=source,
            reason=rule_words.known(rule, who, course.state, course.figure, bad_for),
            figure=course.figure,
            bound=rule.bound,
            since=self._line.clock(course.since),
        )

    def _why_unknown(self, rule: HealthRule, track: Track, moment: Moment, who: str) -> str:
        if isinstance(track, RateTrack) or (track.is_awaited and self._latest is not None):
            return rule_words.too_young(rule, who, moment.age)
        if self._latest is None:
            return _NO_BATCH.format(who)
        columns = sorted(self._latest.observed)
        return rule_words.missing(rule, who, columns, has_interval=bool(self._line.interval))


_NO_BATCH: Final = "{} has not finished a batch in this epoch yet."


def _track(rule: HealthRule) -> Track:
    return RateTrack(rule) if rule.metric is Metric.INPUT_RATE else BatchTrack(rule)


def _speaks_of(rule: HealthRule, source: str) -> bool:
    return rule.source is None or rule.source in source


def _by_name(status: Status) -> dict[str, QueryStatus]:
    # A script may have started a query again under its name; the one that runs counts.
    queries: dict[str, QueryStatus] = {}
    for query in status.queries:
        known = queries.get(query.name)
        if known is None or query.active or not known.active:
            queries[query.name] = query
    return queries


def _of_nobody(rule: HealthRule, queries: list[str]) -> Finding:
    if not queries:
        return _unknown(rule, "", "The driver has not started a query yet.")
    return _unknown(
        rule,
        "",
        f"Rule {rule.name!r} speaks of query {rule.query!r}, which the stream does not have; it "
        f"has {rule_words.names(queries)}.",
    )


def _unknown(rule: HealthRule, query: str, reason: str, source: str | None = None) -> Finding:
    return Finding(
        rule=rule.name,
        state=RuleState.UNKNOWN,
        severity=rule.severity,
        query=query,
        source=source,
        reason=reason,
        bound=rule.bound,
    )
