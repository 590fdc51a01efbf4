"""
The drill: its order, its events, and its outcome.

A drill answers one question about a backup: can Spark use it? It has two parts. The state reader
opens the state of every operator, and, where the user's script is known, its query runs one more
batch on a scratch copy. A driver process does both and reports event by event, so its progress is
known even if it dies or hangs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.wire import Record

SCRATCH_OUTPUT: Final = "{drill-output}"
"""Stands in a script's arguments for a folder of the scratch; never the production output."""
_KEPT_BACK: Final = re.compile(
    r"spark\.(master|submit\.(?!pyFiles$)|driver\.(memory|host|port|bindAddress)|eventLog\.|extraListeners$"
    r"|plugins|metrics\.|ui\.|dynamicAllocation\.|local\.dir$|yarn\.|kubernetes\.|cores\.max$"
    r"|sql\.warehouse\.dir$|sql\.queryExecutionListeners$"
    r"|sql\.streaming\.streamingQueryListeners$)"
)

INPUT_GONE: Final = "input"
"""Subject of the event of a batch that failed because its input is missing."""


def is_kept_back(key: str) -> bool:
    """
    Tell whether a stream's configuration key stays out of a drill.

    A drill is a small process of this host; and it may not tell production's listeners, metrics
    and event logs that a batch was run.
    """
    return _KEPT_BACK.match(key) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledQuery:
    """
    A query of a drill.

    :param folder: Its folder in the backup; the query's name, or empty.
    :param checkpoint: URI it was copied from, by which a script that chose it is recognized.
    :param copy: The scratch copy, a local path.
    :param batch: The pinned batch, at which the state is read.
    :param reads_state: Have the state reader open the state.
    :param state_format: State checkpoint format, 1 or 2.
    :param state_note: Why the state reader is not used; empty when it is.
    :param runs: The batch that is uncommitted once the copy is cut; ``None`` when new input is
        needed.
    :param has_input: That batch has input.
    :param cut: Files of the copy to delete before the query is started.
    :param run_note: Why no batch can be run again; empty when one can.
    :param steps: Batches to run one by one with another run's plans; empty to plan itself.
    :param plans: Folder with those plans, a file of the batch's number each.
    """

    folder: str
    checkpoint: str
    copy: str
    batch: int
    reads_state: bool = False
    state_format: int = 1
    state_note: str = ""
    runs: int | None = None
    has_input: bool = True
    cut: tuple[str, ...] = ()
    run_note: str = ""
    steps: tuple[int, ...] = ()
    plans: str = ""

    @property
    def shown(self) -> str:
        """Return the query as messages name it."""
        return f"Query {self.folder!r}" if self.folder else "The query"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredOrder(Record):
    """
    Base of the orders of jobs that write one answer and end.

    :param answer: Path of the file for the answer.
    :param seconds: How long the job may take in total.
    """

    answer: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOrder(Record):
    """
    The order to the driver of a drill.

    :param application: Path of the script as its author knows it; empty without a script.
    """

    KIND: ClassVar[str] = "drill-order"

    events: str
    seconds: float
    queries: tuple[DrilledQuery, ...]
    application: str = ""
    source: str = ""
    arguments: tuple[str, ...] = ()
    held: str = ""
    scratch: str = ""


class DrillEventKind(StrEnum):
    """The kind of a drill's event."""

    SPARK = "spark"
    """The session is there; the text is Spark's version."""
    STATE = "state"
    """A store was opened and its rows were counted."""
    STATE_FAILED = "state_failed"
    STARTED = "started"
    """A query is about to run."""
    BATCH = "batch"
    """A batch ran and was committed in the scratch copy."""
    NO_BATCH = "no_batch"
    """The query started, found nothing to do and ended without an error."""
    BATCH_FAILED = "batch_failed"
    NOT_IN_BACKUP = "not_in_backup"
    """The script started a query that the backup does not hold; it was left out."""
    SCRIPT_FAILED = "script_failed"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillEvent(Record):
    """
    An event of a drill, a line of its file.

    :param subject: The store, e.g. ``operator 0 (stateStoreSave)``.
    :param text: An error in one line, or another remark.
    :param rows: Rows of state, or of input.
    """

    KIND: ClassVar[str] = "drill-event"

    told: DrillEventKind
    query: str = ""
    subject: str = ""
    text: str = ""
    batch: int | None = None
    rows: int | None = None
    remedy: str = ""


def read_events(data: bytes) -> list[DrillEvent]:
    """Return the events of a driver; a last line that is not whole is left out."""
    found = []
    for line in data.split(b"\n")[:-1]:
        try:
            found.append(DrillEvent.from_bytes(line))
        except RecordError:
            break
    return found


class Drilled(NamedTuple):
    """
    The outcome of a drill, as ``Verification`` holds it.

    :param problems: A sentence for each failure; empty when the backup can be used.
    :param facts: The checked parts: ``spark``, ``script``, and for each query (its folder and a dot
        in front, when it has one) ``state`` and ``batch``, in words.
    """

    problems: tuple[str, ...] = ()
    facts: Mapping[str, str] = MappingProxyType({})


def judge(order: DrillOrder, events: Sequence[DrillEvent], failure: str = "") -> Drilled:
    """
    Return the outcome of a drill from its events.

    :param failure: How the driver ended without its own report, a sentence.
    """
    spark = next((e.text for e in events if e.told is DrillEventKind.SPARK), "unknown")
    facts = {"spark": spark, "script": order.application or "none, so no batch was run"}
    problems: list[str] = []
    for query in order.queries:
        told = [
            e
            for e in events
            if e.query == query.folder and e.told is not DrillEventKind.NOT_IN_BACKUP
        ]
        prefix = f"{query.folder}." if query.folder else ""
        facts[f"{prefix}state"] = _state_fact(query, told)
        problems += _state_problems(query, told, spark)
        if order.application:
            facts[f"{prefix}batch"] = _batch_fact(query, told)
            # A driver that did not come to its end has a problem of its own.
            if not failure or any(e.told is DrillEventKind.BATCH_FAILED for e in told):
                problems.append(_batch_problem(query, told, events))
    from airflow_streaming.model.spark.failures import presentable  # not at dag parse

    left_out = [e.text for e in events if e.told is DrillEventKind.NOT_IN_BACKUP]
    if left_out:
        facts["not_in_backup"] = ", ".join(sorted(set(left_out)))
    if failure:
        problems.append(failure)
    return Drilled(problems=tuple(presentable(p) for p in problems if p), facts=facts)


def _state_fact(query: DrilledQuery, told: Iterable[DrillEvent]) -> str:
    if query.state_note:
        return query.state_note
    opened = [f"{e.subject}: {e.rows} rows" for e in told if e.told is DrillEventKind.STATE]
    return "; ".join(opened) or "not opened"


def _state_problems(query: DrilledQuery, told: Iterable[DrillEvent], spark: str) -> list[str]:
    return [
        f"{query.shown}: Spark {spark} cannot open the state of {e.subject} at batch "
        f"{query.batch}: {e.text} Do not rely on this backup; choose another one and look for what "
        "damaged it."
        for e in told
        if e.told is DrillEventKind.STATE_FAILED
    ]


def _batch_fact(query: DrilledQuery, told: Iterable[DrillEvent]) -> str:
    for event in told:
        if event.told is DrillEventKind.BATCH:
            again = " again" if (event.batch or 0) <= query.batch else ""
            # The file source silently skips files that are gone.
            gone = query.has_input and not event.rows
            doubt = ", although its plan reads some: the input may be gone" if gone else ""
            return f"batch {event.batch} ran{again}, {event.rows or 0} rows of input{doubt}"
        if event.told is DrillEventKind.NO_BATCH:
            return f"started, and no batch was run: {query.run_note or 'no new input.'}"
    return "not run"


def _batch_problem(
    query: DrilledQuery, told: Sequence[DrillEvent], events: Sequence[DrillEvent]
) -> str:
    for event in told:
        if event.told is DrillEventKind.BATCH_FAILED:
            return _batch_failed(query, event)
        if event.told in {DrillEventKind.BATCH, DrillEventKind.NO_BATCH}:
            return ""
    script = next((e for e in events if e.told is DrillEventKind.SCRIPT_FAILED), None)
    if script is not None:
        return (
            f"{query.shown} was not run, because the script failed first: {script.text} Only "
            "its state was checked. Give the drill the script, arguments and configuration "
            "of the stream."
        )
    return (
        f"{query.shown} is in the backup, but the script did not start it; only its state was "
        "checked. Drill with the script that belongs to this backup."
    )


def _batch_failed(query: DrilledQuery, event: DrillEvent) -> str:
    batch = "a batch" if query.runs is None else f"batch {query.runs}"
    if event.subject == INPUT_GONE:
        return (
            f"{query.shown}: the input of {batch} is no longer there, so that it could not be run: "
            f"{event.text} That says nothing against the backup. Drill a newer backup, or keep "
            "the input as long as backups are to be drilled."
        )
    return f"{query.shown}: {batch} does not run on this backup: {event.text} {event.remedy}"
