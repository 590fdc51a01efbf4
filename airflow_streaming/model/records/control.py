"""
Desired state, circuit, pauses between batches, timeline events, the record of an open change, and permanent removals.

People and rules change the desired state and the circuit; the timeline lists the events.

``changes/000002.json`` is created before any action and holds all data that is needed to continue
after a kill. A restore takes effect with the record of the new deployment, which names the new
checkpoint; ``000002.end.json`` only closes the change. An upgrade has stages of its own beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final, Protocol

from airflow_streaming.exceptions import SpecError, closed
from airflow_streaming.model.wire import MAX_NOTE_BYTES, Record

MOST_PAUSE_SECONDS: Final = 86_400
"""Of a pause between batches. Sources must keep the unread data of this time."""


class DesiredState(StrEnum):
    """Whether the stream should run."""

    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired(Record):
    """
    A change of the desired state; the newest number counts.

    :param change: The lane's change that recorded it; ``None`` for a user's or a rule's.
    :param until: End of a stop, after which the keep-alive task records "running"; ``None``: a user starts
        the stream.
    """

    KIND: ClassVar[str] = "desired"

    number: int
    state: DesiredState
    by: str
    reason: str
    at: datetime
    change: int | None = None
    until: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Tell whether it is a stop whose end has come."""
        return self.state is DesiredState.STOPPED and self.until is not None and now >= self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStream:
    """
    A stream of a maintenance.

    :param name: The stream, not its lane.
    :param until: When it starts again.
    :param epoch: Its newest epoch before; 0 if it never ran.
    :param loss_at: When a source removes its first unread data, if known.
    """

    name: str
    until: datetime
    epoch: int = 0
    loss_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance(Record):
    """
    A stop of several streams with an end, recorded before the first of them is stopped.

    :param key: Identifies the request; a second try of a task finds its maintenance by it.
    :param until: When the first streams start again.
    :param streams: In the order in which they are stopped.
    """

    KIND: ClassVar[str] = "maintenance"

    number: int
    selector: str
    key: str
    reason: str
    by: str
    at: datetime
    until: datetime
    streams: tuple[HeldStream, ...]

    @property
    def last_end(self) -> datetime:
        """Return when the last stream starts again."""
        return max((one.until for one in self.streams), default=self.until)


class CircuitState(StrEnum):
    """Whether a failed stream may be restarted."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit(Record):
    """
    A change of the circuit; the newest number counts.

    An open circuit keeps the stream down until a user closes it, or the policy allows a trial. The
    trial is a later epoch: from then on its outcome counts, and this record no longer holds.

    :param epoch: The epoch whose failure opened it, or the newest one when a user closed it.
    """

    KIND: ClassVar[str] = "circuit"

    number: int
    state: CircuitState
    epoch: int
    by: str
    reason: str
    at: datetime

    def holds(self, newest_epoch: int | None) -> bool:
        """Tell whether it is open and no later epoch has been begun."""
        return self.state is CircuitState.OPEN and self.epoch >= (newest_epoch or 0)


class EventKind(StrEnum):
    """The kind of a stream's timeline event."""

    DEPLOYED = "deployed"
    """A new deployment is the current one."""
    PROPOSED = "proposed"
    """The dag proposes another deployment than the current one."""
    LAUNCHED = "launched"
    """An epoch was begun and its driver started."""
    STOP_REQUESTED = "stop_requested"
    """The driver was requested to stop at a batch boundary."""
    KILLED = "killed"
    """The driver was killed."""
    DECLARED_DEAD = "declared_dead"
    """A user confirmed that a driver which cannot be seen is dead."""
    RESTART_DECIDED = "restart_decided"
    """After a failure it was decided when the stream is restarted."""
    CIRCUIT_OPENED = "circuit_opened"
    """After a failure the circuit opened; the stream stays down until it is closed."""
    CIRCUIT_CLOSED = "circuit_closed"
    """It may run again."""
    DESIRED = "desired"
    """The desired state changed to running or stopped."""
    BLOCKED = "blocked"
    """No driver may start, because the last one cannot be proved dead."""
    STANDBY = "standby"
    """A hot standby was launched, promoted or retired."""
    SIZED = "sized"
    """The number of executors changes with the load."""
    CHECKPOINT_CHANGED = "checkpoint_changed"
    """The stream was restored from a backup, or a restore was undone."""
    SINK_REPAIRED = "sink_repaired"
    """A batch that its checkpoint had not committed was moved out of a file sink, back into it, or could not be."""
    UPGRADE = "upgrade"
    """An upgrade came to another stage, or ended."""
    CUTOVER = "cutover"
    """A cutover came to another state, or ended."""
    SUPERVISED = "supervised"
    """Rules, restart policy, stop grace or notifiers of the dag have changed."""
    OWNER = "owner"
    """The stream has been handed over to another dag."""
    PAUSED = "paused"
    """A pause was opened or closed."""
    PRUNED = "pruned"
    """Old records were removed."""
    REMOVED = "removed"
    """The stream was removed, or its name was freed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """A line of the timeline; never used for decisions."""

    KIND: ClassVar[str] = "event"
    LARGEST: ClassVar[int] = MAX_NOTE_BYTES

    event: EventKind
    at: datetime
    by: str
    message: str
    epoch: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPause(Record):
    """
    A pause: the driver holds every query between two batches.

    The driver ends it after its length, also without the home: its opener may die.

    :param begin_within: Seconds until the batches in work must have ended.
    :param longest: Seconds for which the queries are held at most.
    :param key: Names the run that opened the pause, so that its other tasks and tries recognize it; empty of a command.
    """

    KIND: ClassVar[str] = "batch_pause"

    number: int
    by: str
    reason: str
    at: datetime
    begin_within: float
    longest: float
    key: str = ""

    def __post_init__(self) -> None:
        # A driver follows this record, and a forged one must not hold its queries for years.
        for name in ("begin_within", "longest"):
            if not 0 <= getattr(self, name) <= MOST_PAUSE_SECONDS:
                raise SpecError(f"{name} of a pause must be 0 to {MOST_PAUSE_SECONDS:,} seconds.")

    @property
    def until(self) -> datetime:
        """Return when it is over, whatever became of its parties."""
        return self.at + timedelta(seconds=self.begin_within + self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPauseEnd(Record):
    """
    The end of a pause; the queries continue.

    :param key: The run that closed it, as of ``BatchPause``; empty of a command.
    """

    KIND: ClassVar[str] = "batch_pause_end"

    number: int
    by: str
    reason: str
    at: datetime
    key: str = ""


class ChangeKind(StrEnum):
    """The kind of a change."""

    RESTORE = "restore"
    UNDO = "undo"
    UPGRADE = "upgrade"
    """Another deployment on the same checkpoint, with a way back; see ``changes.upgrade``."""
    CUTOVER = "cutover"
    """Another lane becomes live; recorded in both, and led by the first; see ``changes.cutover``."""
    REMOVE = "remove"
    """The stream is removed. Until it ends, when a user frees the name, nothing can start the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Record):
    """
    An exchange of a stream's checkpoint, or one upgrade on the same checkpoint.

    :param replaced: Number of the replaced deployment, or of the one whose checkpoint is replaced.
    :param deployment: Number of the deployment that takes its place.
    :param checkpoint: URI under which every query will have a folder.
    :param backup: Id of the restored backup, or of the one before a removal; empty for an undo and
        for an upgrade.
    :param queries: From each query's folder in the backup to its folder under ``checkpoint``.
    :param terms: Digest of the terms of an upgrade or of a cutover, stored beside it; else empty.
    :param leader: In a lane that a cutover led elsewhere touches: the leading stream and the number
        of its change, as ``orders/4``. Such a guest has no terms and ends with its leader.
    :param rewinds_sinks: Of a restore: after its deployment is recorded, file sinks are rewound to
        the batches of the backup, and the stream is not started before that has ended.
    :param store: Of a removal: URI of the store that has the backup.
    """

    KIND: ClassVar[str] = "change"

    number: int
    stream: str
    what: ChangeKind
    replaced: int
    deployment: int
    checkpoint: str
    by: str
    reason: str
    at: datetime
    backup: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)
    terms: str = ""
    leader: str = ""
    rewinds_sinks: bool = False
    store: str = ""


class ChangeOutcome(StrEnum):
    """How a change ended."""

    DONE = "done"
    """It was carried out."""
    ABANDONED = "abandoned"
    """It was abandoned before it took effect."""
    ROLLED_BACK = "rolled_back"
    """It had taken effect and was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnd(Record):
    """
    The end of a change.

    :param backup_before: Id of the backup of the replaced data; empty without one.
    """

    KIND: ClassVar[str] = "change_end"

    number: int
    outcome: ChangeOutcome
    by: str
    reason: str
    at: datetime
    backup_before: str = ""


class ChangeInProgress(Protocol):
    """A change of a stream that has not been closed; as text, a sentence on how far it has come."""

    @property
    def rule(self) -> str:
        """Return the name of the alert that no task seems to work on it."""

    @property
    def since(self) -> datetime:
        """Return when it came to where it is."""

    @property
    def patience(self) -> timedelta:
        """Return how long it may last before an alert is sent."""

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the change may start a driver now, or end one that is not stopped."""

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether it made no progress for so long that no task seems to work on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRemoval:
    """The removal of a stream, as the tasks see it that once kept it."""

    change: Change

    rule: ClassVar[str] = "removed"
    patience: ClassVar[timedelta] = timedelta.max
    owns_stream: ClassVar[bool] = True

    @property
    def since(self) -> datetime:
        return self.change.at

    def is_overdue(self, now: datetime) -> bool:
        return False

    def __str__(self) -> str:
        by, at = self.change.by, self.change.at
        return f"The stream was removed by {by} on {at:%Y-%m-%d %H:%M} UTC: {closed(self.change.reason)}"


class RemovalKind(StrEnum):
    """The kind of an old item in a home."""

    CHECKPOINT = "checkpoint"
    OUTPUT = "output"
    EPOCH = "epoch"
    HISTORY = "history"
    """Chunks of the progress history of an epoch that stays."""
    EVENTS = "events"
    SIZES = "sizes"
    """Changes of the number of executors."""
    WINDOWS = "windows"
    """Claims of windows, with their outcomes."""
    FRESHNESS = "freshness"
    """Timelines of late times."""
    DRIVER_LOG = "driver_log"
    """On the host where the removal runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal(Record):
    """
    A checkpoint or an output that nothing needs any more, and that is being removed for good.

    It is created before the first file goes, so that no change of the stream returns to a folder that is
    half gone: a change is begun before it looks for such a record, and a removal is recorded before it
    looks for an open change. At least one of the two sees the other.

    :param what: ``checkpoint`` or ``output``.
    :param name: Of the folder below ``checkpoints`` or ``output`` of the stream.
    """

    KIND: ClassVar[str] = "removal"

    number: int
    stream: str
    what: RemovalKind
    name: str
    reason: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalEnd(Record):
    """The whole folder is removed; ``files`` and ``size`` count the last run's removals."""

    KIND: ClassVar[str] = "removal_end"

    number: int
    files: int
    size: int
    by: str
    at: datetime
