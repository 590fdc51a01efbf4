"""
Rehearsed: what a rehearsal found, for a gate and for a person.

It travels as a record, so that the task that rehearsed can hand it to the one that asks a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
    worst,
)
from airflow_streaming.core.plan.plan import Column
from airflow_streaming.core.rehearsal.order import Ending
from airflow_streaming.core.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """
    How fast a query runs: medians over batches that read something.

    :param batches: How many batches they were taken from.
    :param input_rows: Rows that a batch reads.
    :param rows_per_second: Rows processed in a second, as Spark tells it.
    :param duration_ms: Whole time of a batch.
    """

    batches: int
    input_rows: float
    rows_per_second: float | None
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedQuery:
    """
    What one query did.

    :param query: Its name, or the folder of its checkpoint; empty where it has neither.
    :param is_new: The checkpoints do not have it; it began on an empty one.
    :param pinned: Newest committed batch of the copy; ``None`` for a new query.
    :param started: Spark took the query.
    :param batches: Batches committed in the copy, from ``first_batch`` to ``last_batch``.
    :param replayed: The first of them had been run before, with the same input.
    :param has_state: State was loaded and updated; ``state_rows`` tells how many rows there are.
    :param output_rows: Rows that would have been written.
    :param dropped_rows: Rows that came behind the watermark; ``None`` where no operator tells it.
    :param pace: How fast it was; ``live`` is how fast the running deployment is.
    :param columns: What arrives at its sink.
    :param sample: Rows of output, values as text, cut and masked.
    :param observed: Numbers from ``df.observe`` of the last batch that had them.
    :param error: Why it failed, in one line.
    :param notes: What else is worth knowing.
    """

    query: str
    ending: Ending
    is_new: bool = False
    pinned: int | None = None
    started: bool = False
    batches: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    replayed: bool = False
    has_state: bool = False
    state_rows: int | None = None
    input_rows: int = 0
    output_rows: int = 0
    dropped_rows: int | None = None
    pace: Pace | None = None
    live: Pace | None = None
    columns: tuple[Column, ...] = ()
    sample: tuple[Mapping[str, str], ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed(Record):
    """
    The outcome of a rehearsal.

    :param application: The script, as its author knows it.
    :param spark: Version of the Spark it ran on; empty when there never was one.
    :param subject: What it was run against, in words: a backup, or copies of live checkpoints.
    :param seconds: How long it took, with copying and the start of Spark.
    :param findings: Worst first.
    :param leftovers: What could not be removed; empty as a rule.
    """

    KIND: ClassVar[str] = "rehearsed"

    application: str
    spark: str
    subject: str
    seconds: float
    queries: tuple[RehearsedQuery, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    leftovers: str = ""

    @property
    def decision(self) -> GateDecision:
        """Return the worst of the findings; allowed when there is none."""
        return worst(finding.severity for finding in self.findings)

    @property
    def report(self) -> GateReport:
        """Return the findings as a gate's report, to be shown with those of other gates."""
        return report_of(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the decision for readers that know no rules."""
        # The class that slots make is another one than the one a bare super() would look for.
        return {"decision": self.decision.value, **Record.to_dict(self)}
