"""Terms: what a cutover moves, how, and by what it is judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.core.wire import Record
from airflow_streaming.exceptions import SpecError


class SwitchWay(StrEnum):
    """How green becomes live."""

    PARALLEL = "parallel"
    """Green writes an output of its own, and consumers are led to it."""
    HANDOVER = "handover"
    """Green goes on in blue's output, from the very batch at which blue was drained."""


class StartWay(StrEnum):
    """What green begins with."""

    FRESH = "fresh"
    """An empty checkpoint: the sources are read from where the script or ``replay_from`` says."""
    CLONED = "cloned"
    """A copy of blue's checkpoint at a committed batch."""
    CARRIED = "carried"
    """Blue's position in the sources, and no state."""


def check_time(name: str, value: object, *, is_positive: bool = False) -> None:
    """
    Do nothing for a duration that is not below zero.

    :param is_positive: It may not be zero either.
    :raises SpecError: it is one, or no duration at all.
    """
    if not isinstance(value, timedelta):
        raise SpecError(f"{name} is {value!r}; give a timedelta, such as timedelta(minutes=10).")
    if value < timedelta(0) or (is_positive and not value):
        raise SpecError(
            f"{name} is {value}; give a time {'above' if is_positive else 'of at least'} zero."
        )


def check_least(name: str, value: object, least: float) -> None:
    """
    Do nothing for a number that is at least so much.

    :raises SpecError: it is smaller, or no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise SpecError(f"{name} is {value!r}; give a number of at least {least:g}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    One stream of a cutover.

    :param stream: The stream's name; its folder has the live pointer.
    :param blue: The lane that is live when the cutover begins.
    :param green: The other one.
    :param blue_deployment: Number of blue's deployment when the cutover was planned.
    :param shadow: What green runs beside blue: an output, and a checkpoint, of its own.
    :param live: What green runs once it is live. The same as ``shadow`` for parallel outputs; for a
        handover the next number, with blue's output.
    :param start: What ``shadow`` begins with.
    :param queries: Names of the queries of both.
    :param stateful: Those of them that have state.
    :param sinks: Of blue; what a handover has to know of batch ids.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTerms:
    """
    What green has to show before it may become live.

    :param well_for: How long it has to be well without a break, by its driver's own clock.
    :param batches: Batches that every query has to commit, unless its source has no data.
    :param backlog_records: The most that it may have left to read; ``None`` for no bound.
    :param backlog_factor: How much larger than blue's its backlog may be, one batch apart.
    :param measuring_errors: How often in a row measuring may fail before a person is asked.
    """

    well_for: timedelta = timedelta(minutes=2)
    batches: int = 3
    backlog_records: float | None = None
    backlog_factor: float = 1.0
    measuring_errors: int = 4

    def __post_init__(self) -> None:
        """
        Refuse what could never be shown.

        :raises SpecError: a number or a time below what makes sense, or of the wrong type.
        """
        check_time("ready.well_for", self.well_for)
        check_least("ready.batches", self.batches, 0)
        check_least("ready.backlog_factor", self.backlog_factor, 0)
        check_least("ready.measuring_errors", self.measuring_errors, 1)
        if self.backlog_records is not None:
            check_least("ready.backlog_records", self.backlog_records, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTerms:
    """
    How the outputs of one stream are compared: a PySpark job reads both.

    :param stream: The stream.
    :param format: ``parquet``, ``json``, ``delta`` or whatever the runtime can read.
    :param time: Column by whose buckets rows are counted; empty for one bucket.
    :param bucket: Length of a bucket.
    :param keys: Columns by which rows belong together.
    :param sums: Columns that are summed by bucket and key.
    :param full: Compare every row, column by column, too.
    :param ignore: Columns that may differ, or be in one of the two only.
    :param tolerance: Greatest relative difference of a sum that counts as none.
    :param settled: Only rows this much older than both watermarks are compared: later ones may
        still be in flight on one side.
    :param least_rows: With fewer rows in common time there is nothing to compare.
    :param options: Options of the reader.
    """

    stream: str
    format: str = "parquet"
    time: str = ""
    bucket: timedelta = timedelta(hours=1)
    keys: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    full: bool = False
    ignore: tuple[str, ...] = ()
    tolerance: float = 0.0
    settled: timedelta = timedelta(0)
    least_rows: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """
        Refuse what could never be compared.

        :raises SpecError: a number or a time below what makes sense, or of the wrong type; one text
            where several names are asked for.
        """
        check_time("compare.bucket", self.bucket, is_positive=True)
        check_time("compare.settled", self.settled)
        check_least("compare.tolerance", self.tolerance, 0)
        check_least("compare.least_rows", self.least_rows, 0)
        for what in ("keys", "sums", "ignore"):
            if isinstance(getattr(self, what), str):
                name = getattr(self, what)
                raise SpecError(f"compare.{what} is one text, {name!r}; give ({name!r},).")


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
"""How long a state may last unless the terms say otherwise; afterwards it is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverTerms(Record):
    """
    Everything a cutover needs to be finished by whoever finds it.

    :param change: Number of the change in the first pair's stream, which leads.
    :param pairs: The streams that move together: all of them or none.
    :param compare: Comparisons of outputs; without any, nothing is compared.
    :param soak: What green has to show after the switch.
    :param promotes_by_itself: A ready green becomes live without a person's word.
    :param finalises_by_itself: A good soak is the point of no return without a person's word.
    :param retain_blue: How long blue's checkpoint and output are kept after that.
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak, so that going
        back takes no time.
    :param deadlines: Of states by their name, instead of ``DEADLINES``.
    :param pointers: Names of what consumers follow beside the home's own pointer, in their order;
        the dag has the adapters.
    :param checks: Names of the author's checks that have to pass while outputs are compared.
    :param stop_grace: How long a driver may take to reach a batch boundary.
    :param key: Names the wish: whoever asks with the same key means this cutover, ended or not.
    """

    KIND: ClassVar[str] = "cutover_terms"

    change: int
    way: SwitchWay
    pairs: tuple[Pair, ...]
    ready: ReadyTerms = field(default_factory=ReadyTerms)
    compare: tuple[CompareTerms, ...] = ()
    soak: SoakTerms = field(default_factory=SoakTerms)
    promotes_by_itself: bool = False
    finalises_by_itself: bool = True
    retain_blue: timedelta = timedelta(days=1)
    keeps_blue_running: bool = True
    deadlines: Mapping[str, timedelta] = field(default_factory=dict)
    pointers: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    stop_grace: timedelta = timedelta(seconds=60)
    key: str = ""

    @property
    def leader(self) -> Pair:
        """Return the pair in whose stream the cutover is recorded."""
        return self.pairs[0]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the terms but for their number: what names their record."""
        return hashlib.sha256(replace(self, change=0).to_bytes()).hexdigest()

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return how long a state may last; ``None`` for one that may last for ever."""
        return self.deadlines.get(state.value, DEADLINES.get(state))
