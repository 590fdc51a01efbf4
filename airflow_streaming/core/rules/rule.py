"""
Rules of health as data: a figure, a bound, how long it must hold, and what to do about it.

A rule has three values. Without data it is *unknown*, and unknown never passes for well. A rule
that fires names the query or source it speaks of, and clears with hysteresis: the figure has to
stay on the good side of the clear bound for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Self

from airflow_streaming.core.codec import encode
from airflow_streaming.core.wire import decode


class Metric(StrEnum):
    """What a rule looks at; the unit is a part of the name where there is one."""

    INPUT_RATE = "input_rate"
    """Rows a second that came in, over ``mean_over``; 0 when no batch has come in that time."""
    PROCESSING_SHARE = "processing_share"
    """Rows processed a second as a share of the rows that came in a second; 1 keeps up."""
    BATCH_SECONDS = "batch_seconds"
    BATCH_SHARE = "batch_share"
    """Duration of a batch as a share of the interval of its processing trigger."""
    WATERMARK_DELAY_SECONDS = "watermark_delay_seconds"
    STATE_ROWS = "state_rows"
    STATE_BYTES = "state_bytes"
    DROPPED_ROWS = "dropped_rows"
    """Rows a batch dropped because they came behind the watermark."""
    BACKLOG_RECORDS = "backlog_records"
    BACKLOG_BYTES = "backlog_bytes"
    BACKLOG_FILES = "backlog_files"
    BACKLOG_SECONDS = "backlog_seconds"
    """Backlog in records over the rate at which they are processed."""
    STATE_COMMIT_SECONDS = "state_commit_seconds"
    CACHE_MISS_SHARE = "cache_miss_share"
    OBSERVED = "observed"
    """A number of ``df.observe``; the rule's ``column`` names it as ``name.column``."""
    COMMIT_AGE_SECONDS = "commit_age_seconds"
    """Time a query has had work without committing a batch; a query that waits has none."""


_SIGNED = frozenset({Metric.OBSERVED, Metric.WATERMARK_DELAY_SECONDS})
"""Metrics that can be below zero."""

PER_SOURCE = frozenset({Metric.BACKLOG_RECORDS, Metric.BACKLOG_BYTES, Metric.BACKLOG_FILES})
"""Metrics of which every source of a query has its own figure."""


class Comparison(StrEnum):
    """On which side of the bound a figure is bad."""

    ABOVE = "above"
    BELOW = "below"


class Severity(StrEnum):
    """What a verdict asks for, the mildest first."""

    ALERT = "alert"
    """Tell somebody; the stream is left alone."""
    RESTART = "restart"
    """Stop the driver at a batch boundary and start it again; counts against the budget."""
    STOP = "stop"
    """Stop the driver and open the circuit: only a person brings it back."""


BUILT_IN = frozenset(
    {
        *("stalled", "slow", "hung", "unreachable", "query_failed"),
        *("unfinished_upgrade", "unfinished_cutover"),
    }
)
"""Names that the judges of processes, batches and queries give to what they find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRule:
    """
    One rule.

    :param name: What findings, alerts and incidents call it; unique among the rules of a stream.
    :param metric: The figure.
    :param comparison: On which side of the bound the figure is bad.
    :param bound: The figure itself on the bound is still good.
    :param sustained_for: How long it must be bad without a break before the rule fires.
    :param mean_over: Take the mean of the figure over this time; zero takes each batch's own. The
        rule is unknown until the query has been seen for so long.
    :param clear_bound: The figure has to come back to this bound to clear; default: ``bound``.
    :param clear_for: ... and stay there for this long. ``COMMIT_AGE_SECONDS`` clears at once.
    :param severity: What a firing rule asks for.
    :param query: Speak of this query only; default: of each query by itself.
    :param source: Speak only of sources whose description contains this text.
    :param column: For ``OBSERVED``: the number, as ``name.column``.
    """

    name: str
    metric: Metric
    bound: float
    comparison: Comparison = Comparison.ABOVE
    sustained_for: timedelta = timedelta(0)
    mean_over: timedelta = timedelta(0)
    clear_bound: float | None = None
    clear_for: timedelta = timedelta(minutes=1)
    severity: Severity = Severity.ALERT
    query: str | None = None
    source: str | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("A health rule needs a name.")
        if self.name in BUILT_IN:
            raise ValueError(f"{self.name!r} is what a built-in judge calls its findings.")
        for what in ("sustained_for", "mean_over", "clear_for"):
            if getattr(self, what) < timedelta(0):
                raise ValueError(f"{what} of health rule {self.name!r} is negative.")
        for wrong in (self._wrong_bounds(), self._wrong_field()):
            if wrong is not None:
                raise ValueError(f"Health rule {self.name!r} {wrong}")

    def _wrong_bounds(self) -> str | None:
        if not isfinite(self.bound) or not isfinite(self.clear_bound or 0.0):
            return "needs bounds that are numbers, neither infinite nor NaN."
        if self.comparison is Comparison.BELOW and self.bound <= 0 and self.metric not in _SIGNED:
            return (
                f"could never fire: {self.metric} is never below {self.bound:g}. A bound a little "
                "above zero makes a figure of zero bad."
            )
        if self.clear_bound is not None and self.is_bad(self.clear_bound):
            return (
                f"could never clear: its clear_bound {self.clear_bound:g} is itself "
                f"{self.comparison} its bound {self.bound:g}."
            )
        return None

    def _wrong_field(self) -> str | None:
        if (self.metric is Metric.OBSERVED) != (self.column is not None):
            return "needs a 'column' with the metric 'observed', and none with another."
        if self.metric is Metric.INPUT_RATE and not self.mean_over:
            return "needs 'mean_over': the time over which rows are counted."
        if self.metric is Metric.COMMIT_AGE_SECONDS and self.mean_over:
            return "takes no 'mean_over': a time since something has no mean."
        if self.metric is Metric.COMMIT_AGE_SECONDS and self.comparison is Comparison.BELOW:
            return "would fire after every commit; use the comparison 'above'."
        if self.source is not None and self.metric not in PER_SOURCE:
            return f"speaks of a source, but {self.metric} is a figure of the whole query."
        return None

    def is_bad(self, figure: float) -> bool:
        """Tell whether a figure is on the bad side of the bound."""
        if self.comparison is Comparison.ABOVE:
            return figure > self.bound
        return figure < self.bound

    def is_clear(self, figure: float) -> bool:
        """Tell whether a figure is good enough to clear a rule that fires."""
        bound = self.bound if self.clear_bound is None else self.clear_bound
        return figure <= bound if self.comparison is Comparison.ABOVE else figure >= bound

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as JSON; durations as seconds."""
        encoded: dict[str, Any] = encode(self)
        return encoded

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """
        Build a rule from its JSON form.

        :raises RecordError: a field is missing, of the wrong type, or out of its bounds.
        """
        return decode(cls, data, "health rule")


class RuleState(StrEnum):
    """What a rule says."""

    UNKNOWN = "unknown"
    """There is no data for it, or none yet."""
    CLEAR = "clear"
    PENDING = "pending"
    """Bad, but not for long enough."""
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    What one rule says of one query or source.

    :param rule: The rule's name.
    :param query: The query; empty for a rule whose query does not exist.
    :param source: The source, for metrics that every source has.
    :param figure: The figure as last known; ``None`` when there was nothing to measure.
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

    @property
    def key(self) -> str:
        """Return what tells this finding from every other of the stream."""
        return key_of(self.rule, self.query, self.source)


def key_of(rule: str, query: str, source: str | None = None) -> str:
    """Return what tells the findings of a rule on one query or source from all others."""
    return "/".join(part for part in (rule, query, source) if part)
