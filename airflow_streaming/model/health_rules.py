"""
Health rules: when silence, standstill or a figure becomes a verdict.

A rule has three values. Without data it is *unknown*, and unknown never counts as healthy. A firing
rule names its query or source, and clears with hysteresis: the figure must stay on the good side of
the clear bound for a while.

Every rule is an alert unless its severity is higher. A rule whose limit only the owner of a stream
can know is left out without this limit. ``docs/health.md`` has the origin of each default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import (
    ANY_SIGN,
    Positive,
    Range,
    check_values,
    checked,
    named_fields,
)
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.wire import JsonValue

QUERY_FAILED = "query_failed"
DATA_LOSS = "data_loss"
DATA_LOSS_SOON = "data_loss_soon"
SNAPSHOT_LAG = "snapshot_lag"
SNAPSHOT_REPAIRED = "snapshot_repaired"
BUILT_IN = frozenset(
    {
        *("stalled", "slow", "hung", "unreachable", QUERY_FAILED, "no_executor"),
        "source_unreachable",
        *("unfinished_upgrade", "unfinished_cutover"),
    }
)
"""Names of findings of the built-in judges of processes, batches and queries."""

RuleWindow = Annotated[timedelta, Range(least=timedelta(0), most=timedelta(days=9))]
"""A window of a rule: no longer than the history of a stream is kept, by the files of its summary."""

USUAL_MEAN: Final = timedelta(minutes=10)
"""
Backlogs and the state store are judged by their mean over this time, so that one burst does not
raise an alarm.
"""
LIMIT_SHARE: Final = 0.8
"""Share of a limit on state from which on there is something to do about it."""
_ROOM: Final = 0.9
"""A limit that was passed is clear again below this share of it."""

_WINDOWS: Final = (
    *("hang_after", "suspended_after", "startup_timeout", "stall_after", "no_executor_after"),
    "source_unreachable_after",
)


class Comparison(StrEnum):
    """On which side of the bound a figure is bad."""

    ABOVE = "above"
    BELOW = "below"


class Severity(StrEnum):
    """The response to a verdict, the mildest first."""

    ALERT = "alert"
    """Send an alert; the stream is left alone."""
    RESTART = "restart"
    """Stop the driver at a batch boundary and start it again; counts against the budget."""
    STOP = "stop"
    """Stop the driver and open the circuit: only a user starts it again."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRule(JsonValue):
    """
    A condition on a metric: when it fires, when it clears, and its severity.

    A bound that its metric can never pass, or never come back to, is refused, as is a window that
    is longer than the nine days that a stream's history is kept.

    :param name: Its name in findings, alerts and incidents; unique among the rules of a stream.
    :param metric: The figure.
    :param comparison: On which side of the bound the figure is bad.
    :param bound: A figure equal to the bound is still good.
    :param sustained_for: How long it must be bad without a break before the rule fires.
    :param mean_over: Take the mean of the figure over this time; zero takes each batch's own. The
        rule is unknown until the query has been seen for so long.
    :param clear_bound: The figure must come back to this bound to clear; default: ``bound``.
    :param clear_for: ... and stay there for this long. ``COMMIT_AGE_SECONDS`` clears at once.
    :param severity: The response when it fires.
    :param query: Look at this query only; default: at each query separately.
    :param source: Look only at sources whose description contains this text.
    :param column: For ``OBSERVED``: the number, as ``name.column``.
    """

    WHAT: ClassVar[str] = "health rule"

    name: str
    metric: Metric
    bound: Annotated[float, ANY_SIGN]
    comparison: Comparison = Comparison.ABOVE
    sustained_for: RuleWindow = timedelta(0)
    mean_over: RuleWindow = timedelta(0)
    clear_bound: Annotated[float, ANY_SIGN] | None = None
    clear_for: RuleWindow = timedelta(minutes=1)
    severity: Severity = Severity.ALERT
    query: str | None = None
    source: str | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if not self.name:
            raise SpecError("A health rule needs a name.")
        if self.name in BUILT_IN:
            raise SpecError(f"{self.name!r} is the name of a built-in rule. Choose another name.")
        for wrong in (self._wrong_bounds(), self._wrong_field()):
            if wrong is not None:
                raise SpecError(f"Health rule {self.name!r} {wrong}")

    def _wrong_bounds(self) -> str | None:
        is_above = self.comparison is Comparison.ABOVE
        least, most = self.metric.row.least, self.metric.row.most
        best, worst = (least, most) if is_above else (most, least)
        if worst is not None and not self.is_bad(worst):
            hint = "" if is_above else " A bound a little above zero makes a figure of zero bad."
            bound = number_text(self.bound, digits=6)
            return f"could never fire: {self.metric} is never {self.comparison} {bound}.{hint}"
        if best is not None and not self.is_clear(best):
            side = "below" if is_above else "above"
            name = "bound" if self.clear_bound is None else "clear_bound"
            return (
                f"could never clear: {self.metric} is never {side} {number_text(best, digits=6)}. Give a {name} that it "
                "can reach."
            )
        if self.clear_bound is not None and self.is_bad(self.clear_bound):
            return (
                f"could never clear: its clear_bound {number_text(self.clear_bound, digits=6)} is "
                f"itself {self.comparison} its bound {number_text(self.bound, digits=6)}."
            )
        return None

    def _wrong_field(self) -> str | None:
        for name in ("query", "source", "column"):
            if getattr(self, name) == "":
                return f"has an empty {name!r}, which nothing is called; name it, or leave it out."
        if (self.metric is Metric.OBSERVED) != (self.column is not None):
            return "needs a 'column' with the metric 'observed', and none with another."
        if self.metric is Metric.INPUT_RATE and not self.mean_over:
            return "needs 'mean_over': the time over which rows are counted."
        if self.metric is Metric.COMMIT_AGE_SECONDS and self.mean_over:
            return "takes no 'mean_over': a time since something has no mean."
        if self.metric is Metric.COMMIT_AGE_SECONDS and self.comparison is Comparison.BELOW:
            return "would fire after every commit; use the comparison 'above'."
        if self.source is not None and not self.metric.is_per_source:
            return f"speaks of a source, but {self.metric} is a figure of the whole query."
        return None

    def is_bad(self, figure: float) -> bool:
        if self.comparison is Comparison.ABOVE:
            return figure > self.bound
        return figure < self.bound

    def is_clear(self, figure: float) -> bool:
        bound = self.bound if self.clear_bound is None else self.clear_bound
        return figure <= bound if self.comparison is Comparison.ABOVE else figure >= bound


class RuleState(StrEnum):
    """The state of a rule."""

    UNKNOWN = "unknown"
    """No data yet."""
    CLEAR = "clear"
    PENDING = "pending"
    """Bad, but not for long enough."""
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    The finding of one rule about one query or source.

    :param rule: The rule's name.
    :param query: The query; empty for a rule whose query does not exist.
    :param source: The source, for metrics that every source has.
    :param figure: The figure as last known; ``None`` without a value.
    :param metric: Metric of the figure and the bound; ``None`` for seconds.
    :param since: Since when it has been in this state, by the driver's clock.
    """

    rule: str
    state: RuleState
    severity: Severity
    query: str
    reason: str
    source: str | None = None
    figure: float | None = None
    bound: float | None = None
    since: datetime | None = None
    metric: Metric | None = None

    def in_words(self, figure: float | None) -> str | None:
        if figure is None:
            return None
        return duration_text(figure) if self.metric is None else self.metric.row.in_words(figure)

    @property
    def key(self) -> str:
        """Return what tells this finding from every other of the stream."""
        return key_of(self.rule, self.query, self.source)


def key_of(rule: str, query: str, source: str | None = None) -> str:
    """Return what tells the findings of a rule on one query or source from all others."""
    return "/".join(part for part in (rule, query, source) if part)


@checked
def recommended_rules(
    *,
    silent_for: Positive | None = timedelta(minutes=15),
    watermark_sla: timedelta | None = None,
    state_rows_limit: int | None = None,
    state_bytes_limit: int | None = None,
    backlog_records: float | None = None,
    backlog_bytes: float | None = None,
    backlog_files: float | None = None,
    backlog_seconds: timedelta | None = timedelta(minutes=10),
    commit_for: timedelta | None = timedelta(seconds=10),
    cache_miss_share: float | None = 0.5,
    no_commit_for: timedelta | None = timedelta(minutes=15),
    executors_missing_for: timedelta | None = timedelta(minutes=10),
    executors_lost: int | None = 2,
    failed_tasks: int | None = 10,
    snapshot_lag: int | None = 400,
    repaired_snapshots: int | None = 0,
    loss_share: float | None = 0.5,
    loss_within: timedelta | None = None,
    observed: Mapping[str, float] | None = None,
) -> tuple[HealthRule, ...]:
    """
    Return the recommended rules; ``None`` for a limit leaves its rule out.

    :param silent_for: Time without a single row, after which the input has stopped.
    :param watermark_sla: The most that the watermark may be behind the driver's clock.
    :param state_rows_limit: Rows of state a query can afford; the rule fires at 80 %.
    :param state_bytes_limit: The same in bytes of memory.
    :param backlog_records: Records a source may have waiting, as a mean over 10 minutes.
    :param backlog_bytes: The same in bytes.
    :param backlog_files: The same in files.
    :param backlog_seconds: The same as the time that processing the backlog would take.
    :param commit_for: The longest commit of a state store, as a mean over 10 minutes.
    :param cache_miss_share: Misses among look-ups in RocksDB's block cache, over 10 minutes.
    :param no_commit_for: Time a query may have work without committing a batch.
    :param executors_missing_for: Time with fewer executors than the configuration asks for.
    :param executors_lost: Executors that may be lost in an hour: one is a node that went, three are a
        pattern.
    :param failed_tasks: Tasks that may fail in a batch.
    :param snapshot_lag: Batches since the last uploaded snapshot of a state store. From 500 on Spark does not repair
        a damaged snapshot.
    :param repaired_snapshots: Damaged snapshots that Spark may repair in a batch.
    :param loss_share: Share of a source's retention that must be left for its oldest unread data.
    :param loss_within: The same as a time, however long the source keeps data.
    :param observed: Upper bounds on numbers of ``df.observe`` by ``name.column``.
    """
    found = (
        *_flow(silent_for),
        *_late_data(watermark_sla),
        *_limited("state_rows", Metric.STATE_ROWS, state_rows_limit, share=LIMIT_SHARE),
        *_limited("state_bytes", Metric.STATE_BYTES, state_bytes_limit, share=LIMIT_SHARE),
        *(
            rule
            for name, metric, limit in (
                ("backlog_records", Metric.BACKLOG_RECORDS, backlog_records),
                ("backlog_bytes", Metric.BACKLOG_BYTES, backlog_bytes),
                ("backlog_files", Metric.BACKLOG_FILES, backlog_files),
                ("backlog_seconds", Metric.BACKLOG_SECONDS, _seconds(backlog_seconds)),
                ("slow_state_commit", Metric.STATE_COMMIT_SECONDS, _seconds(commit_for)),
                ("block_cache_misses", Metric.CACHE_MISS_SHARE, cache_miss_share),
            )
            for rule in _limited(name, metric, limit, mean_over=USUAL_MEAN)
        ),
        *_commits(_seconds(no_commit_for)),
        *_executors(executors_missing_for, executors_lost, failed_tasks),
        *_snapshots(snapshot_lag, repaired_snapshots),
        *_losses(loss_share, _seconds(loss_within)),
    )
    return found + tuple(_observed(column, bound) for column, bound in (observed or {}).items())


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()


def _flow(silent_for: timedelta | None) -> list[HealthRule]:
    rules = [
        HealthRule(
            name="falling_behind",
            metric=Metric.PROCESSING_SHARE,
            comparison=Comparison.BELOW,
            bound=0.8,
            mean_over=timedelta(minutes=1),
            sustained_for=timedelta(minutes=5),
            clear_bound=0.95,
            clear_for=timedelta(minutes=2),
        ),
        HealthRule(
            name="batch_over_interval",
            metric=Metric.BATCH_SHARE,
            bound=3.0,
            sustained_for=timedelta(minutes=5),
            clear_bound=1.0,
            clear_for=timedelta(minutes=2),
        ),
    ]
    if silent_for is None:
        return rules
    stopped = HealthRule(
        name="input_stopped",
        metric=Metric.INPUT_RATE,
        comparison=Comparison.BELOW,
        # No rate is below zero; less than half a row in this time counts as no row.
        bound=0.5 / silent_for.total_seconds(),
        mean_over=silent_for,
        clear_for=timedelta(0),
    )
    return [stopped, *rules]


def _late_data(watermark_sla: timedelta | None) -> list[HealthRule]:
    dropped = HealthRule(
        name="rows_dropped",
        metric=Metric.DROPPED_ROWS,
        bound=0.0,
        clear_for=timedelta(minutes=10),
    )
    if watermark_sla is None:
        return [dropped]
    late = HealthRule(
        name="watermark_late",
        metric=Metric.WATERMARK_DELAY_SECONDS,
        bound=watermark_sla.total_seconds(),
        clear_for=timedelta(minutes=1),
    )
    return [late, dropped]


def _limited(
    name: str,
    metric: Metric,
    limit: float | None,
    *,
    share: float = 1.0,
    mean_over: timedelta = timedelta(0),
) -> Iterator[HealthRule]:
    """Yield the rule that a figure stays below a share of a limit, and clears well below that."""
    if limit is not None:
        yield HealthRule(
            name=name,
            metric=metric,
            bound=share * limit,
            mean_over=mean_over,
            clear_bound=_ROOM * share * limit,
        )


def _commits(limit: float | None) -> list[HealthRule]:
    if limit is None:
        return []
    return [HealthRule(name="no_commit", metric=Metric.COMMIT_AGE_SECONDS, bound=limit)]


def _executors(
    missing_for: timedelta | None, lost: int | None, failed: int | None
) -> Iterator[HealthRule]:
    if missing_for is not None:
        yield HealthRule(
            name="executors_missing",
            metric=Metric.MISSING_EXECUTORS,
            bound=0.0,
            sustained_for=missing_for,
        )
    if lost is not None:
        yield HealthRule(
            name="executors_lost",
            metric=Metric.LOST_EXECUTORS,
            bound=float(lost),
        )
    if failed is not None:
        yield HealthRule(
            name="tasks_failed",
            metric=Metric.FAILED_TASKS,
            bound=float(failed),
            clear_for=timedelta(minutes=10),
        )


def _snapshots(lag: int | None, repaired: int | None) -> Iterator[HealthRule]:
    yield from _limited(SNAPSHOT_LAG, Metric.SNAPSHOT_LAG, lag)
    if repaired is not None:
        yield HealthRule(
            name=SNAPSHOT_REPAIRED,
            metric=Metric.REPAIRED_SNAPSHOTS,
            bound=float(repaired),
            clear_for=timedelta(minutes=10),
        )


def _losses(share: float | None, seconds: float | None) -> Iterator[HealthRule]:
    for name, metric, bound in (
        (DATA_LOSS, Metric.LOSS_SHARE, share),
        (DATA_LOSS_SOON, Metric.LOSS_SECONDS, seconds),
    ):
        if bound is not None:
            yield HealthRule(
                name=name,
                metric=metric,
                comparison=Comparison.BELOW,
                bound=bound,
                clear_bound=bound / _ROOM
                if metric.row.most is None
                else min(metric.row.most, bound / _ROOM),
            )


def _observed(column: str, bound: float) -> HealthRule:
    return HealthRule(name=f"observed_{column}", metric=Metric.OBSERVED, column=column, bound=bound)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules(JsonValue):
    """
    When silence, standstill or a figure becomes a verdict.

    :param hang_after: Silence of a driver that uses no CPU time, after which it is hung. A
        garbage-collection pause on a crowded machine was seen to last 20 s.
    :param suspended_after: The same for a driver whose processes are stopped, as by ``SIGSTOP``.
    :param busy_hang_after: The same for a driver that does use CPU time.
    :param startup_timeout: Time a launched driver has for its first sign of life; two Spark
        sessions that start together on two busy cores were measured to need 120 s.
    :param stall_after: Least time a batch may be in work before it counts as slow or stalled. The
        window grows with the query's processing interval and its own recent batches.
    :param stall_factor: ... to this many times the median of its recent batches.
    :param stalled: The response to a stalled query.
    :param no_executor_after: Time without a single executor, on a cluster and with work to do,
        after which it is reported; a batch that waits for executors does not count as slow or
        stalled then.
    :param source_unreachable_after: How long a query waits for brokers that accept no connection
        before it is reported; a batch that waits for them does not count as slow or stalled then.
    :param rules: Rules on figures.
    :raises ValueError: a window so short that a pause counts as a hang, or two rules of one name.
    """

    WHAT: ClassVar[str] = "health rules"

    hang_after: timedelta = timedelta(seconds=45)
    suspended_after: timedelta = timedelta(seconds=30)
    busy_hang_after: timedelta = timedelta(minutes=10)
    startup_timeout: timedelta = timedelta(minutes=10)
    stall_after: timedelta = timedelta(minutes=5)
    stall_factor: float = 30.0
    stalled: Severity = Severity.ALERT
    no_executor_after: timedelta = timedelta(minutes=5)
    source_unreachable_after: timedelta = timedelta(seconds=30)
    rules: tuple[HealthRule, ...] = ()

    def __post_init__(self) -> None:
        check_values(self)
        for name in _WINDOWS:
            if getattr(self, name) < timedelta(seconds=10):
                raise SpecError(f"{name} below 10 s takes a pause for a hang; the least is 10 s.")
        names = [rule.name for rule in self.rules]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise SpecError(f"Two health rules are called {min(twice)!r}; names are unique.")

    @classmethod
    @checked
    def recommended(cls, *, rules: tuple[HealthRule, ...] = (), **limits: Any) -> Self:
        """
        Return the rules that operations guides repeat, as alerts.

        :param rules: Rules of your own; one with the name of a recommended rule replaces it.
        :param limits: See ``recommended_rules``; every limit has a default.
        :raises TypeError: the limit does not exist.
        """
        own = {rule.name for rule in rules}
        usual = tuple(rule for rule in recommended_rules(**limits) if rule.name not in own)
        return cls(rules=(*usual, *rules))
