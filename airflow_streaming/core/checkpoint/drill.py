"""
The drill's values: what the driver of a drill is told, what it tells, and what was found.

A drill answers one question about a backup: can Spark use it? It is asked in two ways. The state
reader opens the state of every operator, and, where the user's script is known, its query runs one
more batch on a scratch copy. Both are done by a driver process that tells event by event, so that
one which dies or hangs half-way has still told how far it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from airflow_streaming.core.wire import Record
from airflow_streaming.exceptions import RecordError

SCRATCH_OUTPUT: Final = "{drill-output}"
"""Stands in a script's arguments for a folder of the scratch; never the production output."""

_KEPT_BACK: Final = re.compile(
    r"spark\.(master|submit\.|driver\.(memory|host|port|bindAddress)|eventLog\.|extraListeners$"
    r"|plugins|metrics\.|ui\.|dynamicAllocation\.|local\.dir$|yarn\.|kubernetes\.|cores\.max$"
    r"|sql\.warehouse\.dir$|sql\.queryExecutionListeners$"
    r"|sql\.streaming\.streamingQueryListeners$)"
)


def is_kept_back(key: str) -> bool:
    """
    Tell whether a stream's configuration key stays out of a drill.

    A drill is a small process of this host; and it may not tell production's listeners, metrics
    and event logs that a batch was run.
    """
    return _KEPT_BACK.match(key) is not None


INPUT_GONE: Final = "input"
"""Subject of the event of a batch that failed because its input is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledQuery:
    """
    One query of a drill.

    :param folder: Its folder in the backup; the query's name, or empty.
    :param checkpoint: URI it was copied from, by which a script that chose it is recognised.
    :param copy: The scratch copy, a local path.
    :param batch: The pinned batch, at which the state is read.
    :param reads_state: Have the state reader open the state.
    :param state_format: State checkpoint format, 1 or 2.
    :param state_note: Why the state reader is not asked; empty when it is.
    :param runs: The batch that is uncommitted once the copy is cut; ``None`` when there is none, so
        that new input is needed.
    :param has_input: That batch reads something.
    :param cut: Files of the copy to delete before the query is started.
    :param run_note: Why no batch can be run again; empty when one can.
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

    @property
    def shown(self) -> str:
        """Return the query as messages name it."""
        return f"Query {self.folder!r}" if self.folder else "The query"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOrder(Record):
    """
    What the driver of a drill has to do.

    :param events: File to which it appends what it has to tell.
    :param seconds: Time it may take.
    :param application: Path of the script as its author knows it; empty when there is none.
    :param source: Where its bytes lie now.
    """

    KIND: ClassVar[str] = "drill-order"

    events: str
    seconds: float
    queries: tuple[DrilledQuery, ...]
    application: str = ""
    source: str = ""
    arguments: tuple[str, ...] = ()


class Told(StrEnum):
    """What an event of a drill is about."""

    SPARK = "spark"
    """The session is there; the text is Spark's version."""
    STATE = "state"
    """One store was opened and its rows were counted."""
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
    One thing that the driver of a drill tells, a line of its file.

    :param query: The query's folder.
    :param subject: The store, e.g. ``operator 0 (stateStoreSave)``.
    :param text: An error in one line, or what else there is to say.
    :param rows: Rows of state, or of input.
    :param remedy: What to do about an error.
    """

    KIND: ClassVar[str] = "drill-event"

    told: Told
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
    What a drill of one backup found: the outcome, as ``Verification`` holds it.

    :param problems: A sentence for each thing that does not work; none when the backup can be used.
    :param facts: What was looked at: ``spark``, ``script``, and for each query (its folder and a
        dot in front, when it has one) ``state`` and ``batch``, in words.
    """

    problems: tuple[str, ...] = ()
    facts: Mapping[str, str] = MappingProxyType({})
