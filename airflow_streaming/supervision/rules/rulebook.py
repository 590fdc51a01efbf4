"""
From progress rows to findings: hysteresis, and the findings of every health rule on a stream.

A figure holds from the moment it became known until the next one. A rule that has seen a bad figure
ripens: it fires when the figure has been bad without a break for ``sustained_for``. A firing rule
ripens the other way, and every figure that is not clear restarts that.

A figure of batches changes when a batch ends. The input rate changes with time too: rows leave its
window while no input arrives.

"No new commit" is also the normal state of a query without data, so only the time with work counts:
the running batch's, or since the last commit while data waits. Silence of a source is covered by a
rule on the input rate. A commit clears the rule at once.

A book is pure: no clock, no files. It learns the batches in their order and keeps only the state
that its rules need, so a fresh book that learns the whole history of an epoch gives the same
findings as the old book of that epoch. Findings depend on the rows learned and on the current
status, never on how often they are read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from airflow_streaming.model.health_rules import Finding, HealthRule, RuleState, key_of
from airflow_streaming.model.metrics import BatchContext, Metric, Parts
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.status import QueryStatus, Status
from airflow_streaming.supervision.rules import sentences
from airflow_streaming.supervision.rules.series import Moment, Span, Timeline, Window

FORGET_AFTER: Final = 20
"""Batches in a row that did not report a figure, after which it is unknown again."""

_MAX_WAITING: Final = 5_000
"""Rows kept of a query whose processing interval no status has reported yet."""
_MAX_SOURCES: Final = 100
"""Sources of a query that are distinguished."""

_NO_BATCH: Final = "{} has not finished a batch in this epoch yet."


class RuleProgress:
    """
    State of one rule for one query or source; all times in seconds on one line.

    :param rule: The bad range, and its duration.
    """

    __slots__ = ("_ripe_at", "_rule", "bad_since", "figure", "since", "state")

    def __init__(self, rule: HealthRule) -> None:
        self._rule = rule
        self.state = RuleState.UNKNOWN
        self.figure: float | None = None
        """As last known; ``None`` when there was nothing to measure."""
        self.since = 0.0
        """When this state began."""
        self.bad_since = 0.0
        """When the figure went bad, while pending or firing."""
        self._ripe_at = math.inf

    def copy(self) -> RuleProgress:
        """Return an independent copy."""
        other = RuleProgress.__new__(RuleProgress)
        other._rule, other.state, other.figure = self._rule, self.state, self.figure
        other.since, other.bad_since, other._ripe_at = self.since, self.bad_since, self._ripe_at
        return other

    def fire(self, at: float) -> None:
        """Continue a rule that was firing."""
        self.state, self.since, self.bad_since = RuleState.FIRING, at, at

    def see(self, at: float, figure: float) -> None:
        """Take a figure that became known."""
        self.pass_to(at)
        self.figure = figure
        if self.state is RuleState.FIRING:
            self._settle(at, is_clear=self._rule.is_clear(figure))
        elif not self._rule.is_bad(figure):
            self._clear(at)
        elif self.state is not RuleState.PENDING:
            self.state, self.since, self.bad_since = RuleState.PENDING, at, at
            self._ripe_at = at + self._rule.sustained_for.total_seconds()
            self.pass_to(at)

    def pause(self, at: float, until: float, *, heals: bool) -> None:
        """
        Take note that no batch was in work.

        :param heals: There was nothing to do, which is as good as a good figure. Otherwise the
            time counts neither way.
        """
        self.pass_to(at)
        if not heals:
            self._ripe_at += until - at
            return
        self.figure = None
        if self.state is RuleState.FIRING:
            self._settle(at, is_clear=True)
        else:
            self._clear(at)

    def pass_to(self, at: float) -> None:
        """Let time pass with the figure as it is."""
        if at < self._ripe_at:
            return
        self.since, self._ripe_at = self._ripe_at, math.inf
        self.state = RuleState.FIRING if self.state is RuleState.PENDING else RuleState.CLEAR

    def _settle(self, at: float, *, is_clear: bool) -> None:
        if not is_clear:
            self._ripe_at = math.inf
        elif self._ripe_at == math.inf:
            self._ripe_at = at + self._rule.clear_for.total_seconds()
            self.pass_to(at)

    def _clear(self, at: float) -> None:
        if self.state is not RuleState.CLEAR:
            self.state, self.since, self._ripe_at = RuleState.CLEAR, at, math.inf


class BatchTrack:
    """A rule on a figure of batches."""

    __slots__ = ("_missed", "_over", "_reported", "_window", "course", "is_awaited", "rule")

    def __init__(self, rule: HealthRule) -> None:
        self.rule = rule
        self._over = rule.mean_over.total_seconds()
        self.course, self._window = RuleProgress(rule), Window()
        self._missed, self._reported = 0, False
        self.is_awaited = False
        """There are figures, but not yet over the whole time of the mean."""

    def learn(self, span: Span, parts: Parts | None, first: float) -> None:
        """Add a batch's figures; ``first`` is the start of the query's first batch."""
        if span.lapse is not None and self._reported:
            self.course.pause(*span.lapse, heals=self.rule.metric.row.only_at_work)
        if parts is None:
            self._missed += 1
            if self._missed >= FORGET_AFTER:
                self._forget()
            return
        self._missed, self._reported = 0, True
        if self._over:
            self._window.drop(span.end - self._over)
            self._window.add(span.end, parts)
            parts = self._window.sums
            self.is_awaited = span.end - first < self._over
        figure = None if self.is_awaited else self.rule.metric.row.figure(parts)
        if figure is not None:
            self.course.see(span.end, figure)

    def course_at(self, moment: Moment) -> RuleProgress:
        """Return the course as it stands at a moment."""
        course = self.course.copy()
        if moment.lapse is not None and self._reported:
            heals = moment.heals and self.rule.metric.row.only_at_work
            course.pause(*moment.lapse, heals=heals)
        course.pass_to(moment.now)
        return course

    def _forget(self) -> None:
        self.course, self._window = RuleProgress(self.rule), Window()
        self._reported = self.is_awaited = False


class _Ahead(NamedTuple):
    """How far time has been followed past the last batch: the rows left, and the course there."""

    until: float
    position: int
    rows: float
    course: RuleProgress


class RateTrack:
    """
    A rule on the input rate: rows of the batches that ended in the window, over its length.

    A batch in work hides newer input, so the rate is measured outside of batches only.
    """

    __slots__ = ("_ahead", "_over", "_window", "course", "rule")

    def __init__(self, rule: HealthRule) -> None:
        self.rule, self.course, self._window = rule, RuleProgress(rule), Window()
        self._over = rule.mean_over.total_seconds()
        self._ahead: _Ahead | None = None

    def learn(self, span: Span, parts: Parts | None, first: float) -> None:
        """Take the rows of a batch; ``first`` is the start of the query's first batch."""
        if not self._window.sums:
            self._window.add(first, (0,))
        # Rows that left the window before the batch began were seen leaving; later the batch hides
        # them.
        self.course = self._pass(span.start - self._over, self._all()).course
        self._window.drop(span.end - self._over)
        self._window.add(span.end, parts or (0,))
        self._ahead = None
        if span.end - first >= self._over:
            self.course.see(span.end, self._window.sums[0] / self._over)

    def course_at(self, moment: Moment) -> RuleProgress:
        """Return the course as it stands at a moment."""
        if not self._window.sums:
            return self._without_batches(moment)
        until = moment.known_until - self._over
        if self._ahead is None or until < self._ahead.until:
            self._ahead = self._all()
        self._ahead = self._pass(until, self._ahead)
        course = self._ahead.course.copy()
        course.pass_to(moment.now)
        return course

    def _all(self) -> _Ahead:
        return _Ahead(-math.inf, self._window.oldest, self._window.sums[0], self.course)

    def _pass(self, until: float, ahead: _Ahead) -> _Ahead:
        # Rows leave the window one batch after the other, and every time there is a new rate.
        index, rows, samples = ahead.position, ahead.rows, self._window.samples
        course = ahead.course.copy()
        while index < len(samples) and samples[index][0] <= until:
            rows -= samples[index][1][0]
            course.see(samples[index][0] + self._over, rows / self._over)
            index += 1
        return _Ahead(until, index, rows, course)

    def _without_batches(self, moment: Moment) -> RuleProgress:
        course, begun = RuleProgress(self.rule), moment.now - moment.age
        if moment.known_until - begun >= self._over:
            course.see(begun + self._over, 0.0)
            course.pass_to(moment.now)
        return course


def commit_age_finding(
    rule: HealthRule, query: QueryStatus, moment: Moment, line: Timeline
) -> Finding:
    """Return the finding of a rule on the time since a query's commit."""
    age = 0.0 if moment.is_idle else _age(query)
    who = sentences.subject(query.name)
    state, began = RuleState.UNKNOWN, None
    if age is None:
        reason = f"The driver has not reported how long query {query.name!r} has been at its batch."
    elif not rule.is_bad(age):
        state, began = RuleState.CLEAR, moment.now - age
        figure = None if moment.is_idle else age
        reason = sentences.known(rule, who, state, figure, 0.0)
    else:
        state, began = _of_bad(rule, age, moment.now)
        reason = sentences.known(rule, who, state, age, age)
    return Finding(
        rule=rule.name,
        state=state,
        severity=rule.severity,
        query=query.name,
        reason=reason,
        figure=age,
        bound=rule.bound,
        metric=rule.metric,
        since=None if began is None else line.clock(began),
    )


def _age(query: QueryStatus) -> float | None:
    if not query.processing:
        return query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
    if query.batch_for_s is None or query.committed_ago_s is None:
        return query.batch_for_s
    # In real-time mode a commit is due when the interval ends.
    late = query.batch_for_s - (query.checkpoint_interval_s or 0.0)
    return max(0.0, min(late, query.committed_ago_s))


def _of_bad(rule: HealthRule, age: float, now: float) -> tuple[RuleState, float]:
    bad_for, needed = age - rule.bound, rule.sustained_for.total_seconds()
    if bad_for >= needed:
        return RuleState.FIRING, now - bad_for + needed
    return RuleState.PENDING, now - bad_for


Track = BatchTrack | RateTrack


class RuleBook:
    """
    Every rule of a stream, held against the progress of one epoch.

    :param rules: The rules; their names are unique.
    :param firing: Where the history before the first row is not learned: what fired then, by the
        key of its finding, and since when.
    """

    def __init__(
        self, rules: Sequence[HealthRule], *, firing: Mapping[str, datetime] | None = None
    ) -> None:
        self._rules, self._firing = tuple(rules), firing or {}
        self._queries: dict[str, _QueryBook] = {}

    def learn(self, row: BatchProgress) -> None:
        """Add the next batch of a query; a known batch changes no state."""
        self._book_of(row.query).learn(row)

    def meet(self, status: Status) -> dict[str, Moment]:
        """Read the queries of a status, and return each query's moment."""
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
    """The state of one query."""

    def __init__(self, name: str, rules: list[HealthRule], firing: Mapping[str, datetime]) -> None:
        self._name, self._line, self._firing = name, Timeline(), firing
        rules = [rule for rule in rules if rule.metric is not Metric.COMMIT_AGE_SECONDS]
        self._whole = {r.name: _track(r) for r in rules if not r.metric.is_per_source}
        self._by_source: dict[str, dict[str, Track]] = {
            rule.name: {} for rule in rules if rule.metric.is_per_source
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
            rule = track.rule
            context = BatchContext(span.gap, self._line.interval, rule.column or "")
            track.learn(span, rule.metric.parts_of(row, context), first)
        for name, tracks in self._by_source.items():
            self._learn_sources(self._rules[name], tracks, row, span)

    def _learn_sources(
        self, rule: HealthRule, tracks: dict[str, Track], row: BatchProgress, span: Span
    ) -> None:
        told = rule.metric.parts_of_sources(row)
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
        self._line.interval = max(
            0.0, query.processing_interval_s or query.checkpoint_interval_s or 0.0
        )
        waiting, self._waiting = self._waiting, None
        for row in waiting or ():
            self.learn(row)
        return self._line.moment(query, status)

    def findings(self, rule: HealthRule, query: QueryStatus, moment: Moment) -> Iterator[Finding]:
        if not query.active:
            reason = f"{sentences.subject(self._name)} has ended."
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
        who = sentences.subject(self._name)
        if self._latest is None:
            return _NO_BATCH.format(who)
        if not present:
            return f"Spark has not reported sources for query {self._name!r}."
        return (
            f"{who} has no source whose description contains {rule.source!r}; it has "
            f"{sentences.names(present)}."
        )

    def _finding(
        self, rule: HealthRule, track: Track, moment: Moment, source: str | None = None
    ) -> Finding:
        course = track.course_at(moment)
        if course.state is RuleState.UNKNOWN:
            reason = self._why_unknown(rule, track, moment, sentences.subject(self._name, source))
            return _unknown(rule, self._name, reason, source)
        return self._known(rule, course, moment, source)

    def _known(
        self, rule: HealthRule, course: RuleProgress, moment: Moment, source: str | None
    ) -> Finding:
        who = sentences.subject(self._name, source)
        bad_for = moment.now - course.bad_since
        return Finding(
            rule=rule.name,
            state=course.state,
            severity=rule.severity,
            query=self._name,
            source=source,
            reason=sentences.known(rule, who, course.state, course.figure, bad_for),
            figure=course.figure,
            bound=rule.bound,
            metric=rule.metric,
            since=self._line.clock(course.since),
        )

    def _why_unknown(self, rule: HealthRule, track: Track, moment: Moment, who: str) -> str:
        if isinstance(track, RateTrack) or (track.is_awaited and self._latest is not None):
            return sentences.too_young(rule, who, moment.age)
        if self._latest is None:
            return _NO_BATCH.format(who)
        columns = sorted(self._latest.observed)
        return sentences.missing(rule, who, columns, has_interval=bool(self._line.interval))


def _track(rule: HealthRule) -> Track:
    return RateTrack(rule) if rule.metric is Metric.INPUT_RATE else BatchTrack(rule)


def _speaks_of(rule: HealthRule, source: str) -> bool:
    return rule.source is None or rule.source in source


def _by_name(status: Status) -> dict[str, QueryStatus]:
    # A script may have restarted a query under its name; the running one counts.
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
        f"has {sentences.names(queries)}.",
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
        metric=rule.metric,
    )
