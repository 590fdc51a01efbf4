"""
The records of a cutover: its terms, the live lane, checks, and its standing.

A live record says that from one step of a cutover on a lane is the live one. It counts as soon as
that step is recorded, so that one exclusive create moves every stream of a cutover at once. Until
then, and for ever if another step was recorded in its place, the previous record counts.

Until blue must stop, a cutover does not touch it, and its keep-alive task continues as always. From
then on no driver, or another lane's, must run for some time, and only the cutover knows which; so
keep-alive tasks of either lane only watch until it is over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import nearest
from airflow_streaming.model.arguments.fields import (
    Positive,
    Range,
    check_values,
    named_fields,
    refuse_blank,
)
from airflow_streaming.model.durations import age_of
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.names import base_of, check_names, is_path_part
from airflow_streaming.model.records.cutover_table import (
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SinkFacts, SoakTerms
from airflow_streaming.model.spark.plan import KAFKA
from airflow_streaming.model.spark.secrets import is_secret_name
from airflow_streaming.model.wire import Record

FORMATS: Final = (
    "parquet",
    "orc",
    "json",
    "csv",
    "text",
    "xml",
    "avro",
    "delta",
    "iceberg",
    "hudi",
    "kafka",
)
"""Names of formats that many have."""

DEADLINES: Final[Mapping[CutoverState, timedelta]] = MappingProxyType(
    {
        CutoverState.STARTING: timedelta(minutes=10),
        CutoverState.CATCHING_UP: timedelta(hours=12),
        CutoverState.SHADOWING: timedelta(hours=2),
        CutoverState.COMPARING: timedelta(hours=1),
        CutoverState.READY: timedelta(days=1),
        CutoverState.HELD: timedelta(days=1),
        CutoverState.WARMING: timedelta(minutes=10),
        CutoverState.DRAINING: timedelta(minutes=5),
        CutoverState.SWITCHING: timedelta(minutes=5),
        CutoverState.LIVE: timedelta(minutes=10),
        CutoverState.SOAKING: timedelta(hours=2),
    }
)
"""How long a state may last by default; afterwards the cutover is abandoned."""

Step = Callable[[str, int, int], CutoverTransition | None]
"""Returns a step by leading stream, change and number; ``None`` when it was not taken yet."""

_HANDS_OFF: Final = frozenset(
    {
        CutoverState.DRAINING,
        CutoverState.SWITCHING,
        CutoverState.LIVE,
        CutoverState.SOAKING,
        CutoverState.FINALIZING,
        CutoverState.ABORTING,
        CutoverState.ROLLING_BACK,
    }
)
_USUAL: Final = timedelta(minutes=30)
_WHILE_NOBODY_ELSE_ACTS: Final = timedelta(minutes=5)


class SwitchMethod(StrEnum):
    """How green becomes live."""

    PARALLEL = "parallel"
    """Green writes an output of its own, and consumers are led to it."""
    HANDOVER = "handover"
    """Green continues in blue's output, from the very batch at which blue was drained."""


class StartWay(StrEnum):
    """The origin of green's checkpoint."""

    FRESH = "fresh"
    """An empty checkpoint: the sources are read from where the script or ``replay_from`` says."""
    CLONED = "cloned"
    """A copy of blue's checkpoint at a committed batch."""
    MIGRATED = "migrated"
    """Such a copy, whose state is migrated where green cannot read it as it is."""
    CARRIED = "carried"
    """Blue's position in the sources, and no state."""

    @property
    def is_copy(self) -> bool:
        """Tell whether green continues with blue's state."""
        return self in (StartWay.CLONED, StartWay.MIGRATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    A stream of a cutover.

    :param stream: The stream's name; its folder has the live pointer.
    :param blue: The lane that is live when the cutover begins.
    :param blue_deployment: Number of blue's deployment when the cutover was planned.
    :param shadow: Green's deployment beside blue: with an output, and a checkpoint, of its own.
    :param live: Green's deployment once it is live. The same as ``shadow`` for parallel outputs;
        for a handover the next number, with blue's output.
    :param start: The origin of the checkpoint of ``shadow``.
    :param queries: Names of the queries of both.
    :param stateful: The stateful ones among them.
    :param sinks: Of blue; a handover needs its batch ids.
    :param migrations: Of the queries whose state green cannot read as it is.
    """

    stream: str
    blue: str
    green: str
    blue_deployment: int
    shadow: Deployment
    live: Deployment
    start: StartWay
    queries: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    sinks: tuple[SinkFacts, ...] = ()
    migrations: tuple[StateMigration, ...] = ()


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTerms:
    """
    Conditions for green before it may become live.

    :param well_for: How long it must be well without a break, by its driver's own clock.
    :param batches: Batches that every query must commit, unless its source has no data.
    :param backlog_records: Maximum backlog; ``None`` for no bound.
    :param backlog_factor: How much larger than blue's its backlog may be, one batch apart.
    :param measuring_errors: Failed measurements in a row before the operator must decide.
    :raises SpecError: a field is of another kind, or out of its range.
    """

    well_for: timedelta = timedelta(minutes=2)
    batches: int = 3
    backlog_records: float | None = None
    backlog_factor: float = 1.0
    measuring_errors: Annotated[int, Range(least=1)] = 4

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTerms:
    """
    How the outputs of one stream are compared: a PySpark job reads both, or, of topics, a consumer.

    :param stream: The stream.
    :param format: ``parquet``, ``json``, ``delta`` or any other format of the runtime; only a
        misspelled well-known name is refused here. ``kafka`` compares the records of two topics:
        ``keys`` are ``key``, ``value.FIELD`` or ``headers.NAME``, and ``ignore`` fields of a JSON
        value; ``options`` name the broker as Spark's source does, with ``{env.NAME}`` for a secret
        of the stream's ``env``. Order and repeats do not count.
    :param topic: Of ``kafka``: the topic of each lane, with the placeholders ``{stream}``,
        ``{deployment}`` and ``{output}`` of a script's arguments; empty for the topic in the plan
        of the only Kafka sink.
    :param headers: Of ``kafka``: compare the headers of records too.
    :param time: Column by whose buckets rows are counted; empty for one bucket. Of ``kafka``: where
        a record has the start of its window, as in ``keys``; default ``value.window.start``. After
        a replay, records of windows that began before it are left out.
    :param bucket: Length of a bucket.
    :param keys: Columns by which rows belong together.
    :param sums: Columns that are summed by bucket and key.
    :param full: Compare every row, column by column, too.
    :param ignore: Columns that may differ, or be in one of the two only.
    :param tolerance: Greatest relative difference of sums that still count as equal.
    :param settled: Only rows this much older than both watermarks are compared: later ones may
        still be in flight on one side.
    :param least_rows: With fewer rows in common time the comparison is inconclusive.
    :param options: Options of the reader.
    :raises SpecError: a field is of another kind, or out of its range; or a column is named twice,
        or is a key and ignored.
    """

    stream: str
    format: str = "parquet"
    time: str = ""
    bucket: Positive = timedelta(hours=1)
    keys: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    full: bool = False
    ignore: tuple[str, ...] = ()
    tolerance: float = 0.0
    settled: timedelta = timedelta(0)
    least_rows: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    topic: str = ""
    headers: bool = False

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank("CompareTerms", stream=self.stream, format=self.format)
        if " " in self.format.strip():
            raise SpecError(
                f"CompareTerms.format is {self.format!r:.80}; give the name of a format, e.g. 'parquet', or "
                "the class of a data source."
            )
        near = nearest(self.format.lower(), FORMATS, likeness=0.75)
        if near is not None and near != self.format.lower():
            raise SpecError(
                f"CompareTerms.format is {self.format!r:.80}; did you mean {near!r}? For a data source of "
                "that very name give its class."
            )
        for name in ("keys", "sums", "ignore"):
            check_names(f"CompareTerms.{name}", getattr(self, name))
        self._check_topic()
        both = sorted({*self.keys} & {*self.ignore})
        if both:
            raise SpecError(
                f"CompareTerms has {both[0]!r} in keys and in ignore: rows cannot belong together by a "
                "column that may differ. Take it out of one of them."
            )

    def _check_topic(self) -> None:
        if self.format.lower() != KAFKA:
            if self.topic or self.headers:
                raise SpecError(
                    "CompareTerms.topic and headers belong to format='kafka'. Leave them out, or give that format."
                )
            return
        if self.topic and "{stream}" not in self.topic and "{output}" not in self.topic:
            raise SpecError(
                f"CompareTerms.topic is {self.topic!r:.80}, which can be one topic for both lanes: their first "
                "deployments have the number 1. Name a topic with {stream}, e.g. 'orders-{stream}-{deployment}'."
            )
        if self.sums:
            raise SpecError(
                "CompareTerms with format='kafka' compares records as sets, which have no sums. Leave sums out."
            )
        plain = [
            key
            for key, value in self.options.items()
            if is_secret_name(key) and value and "{env." not in value
        ]
        if plain:
            raise SpecError(
                f"CompareTerms.options has a value for {plain[0]}, and the home records these terms. Write "
                "'{env.NAME}' in its place, and set NAME in the env of the StreamSpec or of the command."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTerms(Record):
    """
    All terms that a task needs to finish a cutover.

    :param change: Number of the change in the first pair's stream, which leads.
    :param pairs: The streams that move together: all of them or none.
    :param compare: Comparisons of outputs; without any, outputs are not compared.
    :param soak: Conditions for green after the switch.
    :param promotes_by_itself: A ready green becomes live without an approval.
    :param finalizes_by_itself: A good soak is the point of no return without an approval.
    :param retain_blue: How long blue's checkpoint and output are kept after that.
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak, so that going
        back takes no time.
    :param deadlines: Of states by their name, instead of ``DEADLINES``.
    :param pointers: Names of the consumers' pointers beside the home's own pointer, in their order;
        the dag has the adapters.
    :param checks: Names of the author's checks that must pass while outputs are compared.
    :param stop_grace: How long a driver may take to reach a batch boundary.
    :param key: Names the request: a request with the same key means this cutover, ended or not.
    """

    KIND: ClassVar[str] = "cutover_terms"

    change: int
    way: SwitchMethod
    pairs: tuple[Pair, ...]
    ready: ReadyTerms = field(default_factory=ReadyTerms)
    compare: tuple[CompareTerms, ...] = ()
    soak: SoakTerms = field(default_factory=SoakTerms)
    promotes_by_itself: bool = False
    finalizes_by_itself: bool = True
    retain_blue: timedelta = timedelta(days=1)
    keeps_blue_running: bool = True
    deadlines: Mapping[str, timedelta] = field(default_factory=dict)
    pointers: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    stop_grace: timedelta = timedelta(seconds=60)
    key: str = ""

    @property
    def leader(self) -> Pair:
        return self.pairs[0]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the terms but for their number: what names their record."""
        return hashlib.sha256(replace(self, change=0).to_bytes()).hexdigest()

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return how long a state may last; ``None`` for ever."""
        return self.deadlines.get(state.value, DEADLINES.get(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecord(Record):
    """
    A lane that becomes live with a step of a cutover; ``live/000004.json``.

    :param stream: The stream.
    :param deployment: Number of its deployment at that time.
    :param leader: The stream that leads the cutover.
    :param change: Number of the cutover's change there.
    :param step: Number of the transition with which this counts.
    :param event: The event that must be in it.
    """

    KIND: ClassVar[str] = "live"

    number: int
    stream: str
    lane: str
    deployment: int
    output: str
    leader: str
    change: int
    step: int
    event: CutoverEvent
    at: datetime
    by: str

    def __post_init__(self) -> None:
        # Each of them becomes the folder that is read next.
        for name in (self.stream, self.lane, self.leader):
            if not is_path_part(name):
                raise ValueError(f"{name!r:.80} is not the name of a stream or a lane.")
        if base_of(self.lane) != self.stream:
            raise ValueError(f"{self.lane!r:.80} is not a lane of stream {self.stream!r:.80}.")


def effective(records: Sequence[LiveRecord], step: Step) -> LiveRecord | None:
    """
    Return the record that counts.

    :param records: Of one stream, oldest first.
    """
    for record in reversed(records):
        taken = step(record.leader, record.change, record.step)
        if taken is not None and taken.event is record.event:
            return record
    return None


class Result(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Record):
    """
    The result of one check; ``changes/000004/checks/000007-compare.orders.json``.

    :param change: Number of the cutover's change in the leading stream.
    :param step: Number of the step that led to ``comparing``: a result of an earlier stay there,
        perhaps for another driver of green, never counts for a later one.
    :param name: ``compare.STREAM`` for a comparison, else the name in ``CutoverTerms.checks``.
    """

    KIND: ClassVar[str] = "cutover_check"

    change: int
    step: int
    name: str
    result: Result
    reason: str
    at: datetime
    by: str
    figures: Mapping[str, str] = field(default_factory=dict)


def comparison_of(stream: str) -> str:
    """Return the name under which the comparison of a stream's outputs is kept."""
    return f"compare.{stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverStanding:
    """
    A cutover that was not closed, as one of its lanes sees it.

    :param change: Number of the change in the lane that looks.
    :param green: Name of the lane that is to become live; empty when its terms cannot be read.
    :param state: Where the cutover is, and ``since`` when.
    :param deadline: How long it may be there before it aborts automatically.
    """

    change: int
    state: CutoverState
    since: datetime
    green: str = ""
    deadline: timedelta = timedelta(0)

    def __str__(self) -> str:
        towards = f"cutover to {self.green}" if self.green else "cutover"
        which, state = f"Change {self.change} ({towards})", self.state.value.replace("_", " ")
        if self.state.is_end:
            return f"{which} has come to its end and was not closed: {state}."
        return f"{which} is in progress: {state}."

    @property
    def rule(self) -> str:
        return "unfinished_cutover"

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the cutover may start a driver now."""
        return self.state in _HANDS_OFF

    @property
    def patience(self) -> timedelta:
        """Return how long it may be in its state before an alert is sent."""
        # After the end one action remains, the release of a driver at the barrier; see ``decide``.
        is_urgent = self.owns_stream or self.state.is_end
        return self.deadline + (_WHILE_NOBODY_ELSE_ACTS if is_urgent else _USUAL)

    def is_overdue(self, now: datetime) -> bool:
        return age_of(self.since, now) > self.patience
