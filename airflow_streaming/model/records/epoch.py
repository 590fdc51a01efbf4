"""
An epoch and its driver: the records under ``epochs/``.

``epochs/000017.json`` is created once and is the fence: the task that creates it may start one
driver, and any driver of an older epoch that sees it stops itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.lease import check_lease
from airflow_streaming.model.names import check_place, standby_of
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.launchers import (
    MAX_STOP_GRACE,
)
from airflow_streaming.model.wire import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """
    A running operating system, the scope of a process id.

    :param machine: The machine's id, the same after a reboot; empty where unknown.
    :param boot: Id of this boot; empty where unknown.
    :param pid_space: Id of the process-id namespace; empty where unknown.
    :param cards: Digests of the addresses of its network cards, which a cloned machine does not
        share; empty where unknown. A card may come and go, so equality of hosts ignores it.
    """

    name: str
    machine: str = ""
    boot: str = ""
    pid_space: str = ""
    cards: tuple[str, ...] = field(default=(), compare=False)

    def rebooted_since(self, earlier: Host) -> bool:
        """
        Tell whether this is the earlier host after a reboot, so that its processes are gone.

        Two hosts may share a name, and a cloned machine also the machine id; it has network cards of its own.
        Without id and card nothing is proved.
        """
        is_named = (self.name, self.machine) == (earlier.name, earlier.machine)
        same_machine = is_named and not set(self.cards).isdisjoint(earlier.cards)
        known = self.machine and self.boot and earlier.boot
        return bool(same_machine and known and self.boot != earlier.boot)


class LaunchCause(StrEnum):
    """Why an epoch was begun."""

    FIRST = "first"
    """The stream had never run."""
    RESTART = "restart"
    """The driver before it failed, hung, or was lost."""
    START = "start"
    """After a stop, a completed script, or a replaced deployment."""
    TRIAL = "trial"
    """The trial launch of a half-open circuit."""
    UPGRADE = "upgrade"
    """A change puts a new deployment in the place of the old one."""
    ROLLBACK = "rollback"
    """A change puts the old deployment back."""
    CUTOVER = "cutover"
    """A cutover starts a lane, or brings one back."""
    STANDBY = "standby"
    """Keep-alive keeps a warm driver waiting; it may not write before it is promoted."""
    FENCE = "fence"
    """A change keeps everybody else from starting a driver: none is ever started for it."""


def mark_of(token: str) -> str:
    """
    Return the public mark of a driver's token for its command line.

    Every user of a host reads command lines. The token itself, with which a driver signs its
    records, is in the home alone.
    """
    return hashlib.sha256(f"airflow-streaming driver {token}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch(Record):
    """
    The right to start one driver, created once.

    :param token: Random text of this epoch's driver; its command line carries ``mark_of`` it.
    :param host: Where the launcher is about to start it.
    :param launcher: Name of the launcher that is about to start it, e.g. ``local``; only this
        launcher finds it.
    :param by: Who began it: a dag run, a user.
    :param change: Number of the change that began it, if any.
    :param standby: Its driver waits at the barrier, see ``StandbyOrder``, and writes no data before
        it is released.
    :param queries: Of a standby: the queries that will come to the barrier, by name.
    :param step: Of a cutover: the number of the step in whose state it was begun.
    :param owner: User id that its driver runs as, on ``host``; ``None`` in older records.
    :param lease_seconds: How long its driver runs on without a written heartbeat; ``None`` for a
        driver without a lease, see ``model.lease``.
    :param overtakes: The heartbeat at which the driver before it, out of sight, had stood still for
        longer than its lease when this epoch was begun; ``None`` where that was no reason.
    :param serves: Of the record of a hot standby, stored beside the lane: the lane for which its
        driver waits. Such a record includes no right to write.
    :param promotes: Number of the hot standby whose driver is this epoch's: it has that standby's
        token, host and launcher. The driver stays at the barrier until it is released.
    :param executors: The driver's number of executors; ``None`` where its deployment alone sets it.
    :param token_since: With ``promotes``: when that driver was about to be started.
    """

    KIND: ClassVar[str] = "epoch"

    number: int
    stream: str
    deployment: int
    token: str
    host: Host
    launcher: str
    cause: LaunchCause
    reason: str
    by: str
    created_at: datetime
    change: int | None = None
    standby: bool = False
    queries: tuple[str, ...] = ()
    step: int | None = None
    owner: int | None = None
    lease_seconds: float | None = None
    overtakes: int | None = None
    serves: str = ""
    promotes: int | None = None
    token_since: datetime | None = None
    executors: int | None = None

    def __post_init__(self) -> None:
        check_place("token", self.token)
        if self.lease_seconds is not None:
            check_lease(timedelta(seconds=self.lease_seconds))
        if self.serves and self.stream != standby_of(self.serves):
            raise ValueError(f"{self.stream!r:.80} has no standbys of {self.serves!r:.80}.")

    @property
    def lease(self) -> timedelta | None:
        """Return the lease of its driver, if it has one."""
        return None if self.lease_seconds is None else timedelta(seconds=self.lease_seconds)

    @property
    def as_launched(self) -> Epoch:
        """
        Return the record under which the driver was started, as its launcher knows it.

        Launchers name processes, pods and files after stream and number, and a promoted driver
        keeps the names it was started with.
        """
        if self.promotes is None:
            return self
        return replace(
            self,
            stream=standby_of(self.stream),
            number=self.promotes,
            created_at=self.token_since or self.created_at,
            serves=self.stream,
            promotes=None,
        )

    @property
    def mark(self) -> str:
        """The mark on the driver's command line; see ``mark_of``."""
        return mark_of(self.token)

    def is_carried_by(self, words: Iterable[str]) -> bool:
        """Tell whether one of some words of a command line is this epoch's."""
        return self.mark in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Record):
    """
    The external id of an epoch's driver, written right after it was started.

    :param handle: Where the epoch's launcher looks for the driver first. Its keys are that
        launcher's own, only that launcher reads them, and no value in it is secret.
    :param driver: The driver's name for people, e.g. ``pid 4711``.
    :param log: Where people find its output: a file on ``host``, an address or a command; empty
        without one. It is only displayed, never opened.
    """

    KIND: ClassVar[str] = "launch"

    epoch: int
    token: str
    host: Host
    launched_at: datetime
    handle: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    log: str = ""

    def __post_init__(self) -> None:
        check_place("log", self.log)
        check_place("token", self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest(Record):
    """
    A request that the epoch's driver stops at a batch boundary.

    :param grace_seconds: How long it may take, at most a day; after that it is killed.
    :param verdict: The response of a health verdict that requested the stop; ``None`` for a user's
        request. Such an end counts as a failure, so that no verdict can restart a stream without
        bound.
    :param wish: With ``verdict``: number of the newest desired state of the stream then, 0 for
        none; a later one is a user's answer to it. ``None`` without a verdict.
    :param change: The lane's change that requests it; ``None`` for an operator or a rule.
    """

    KIND: ClassVar[str] = "stop"

    epoch: int
    by: str
    reason: str
    grace_seconds: float
    requested_at: datetime
    verdict: Severity | None = None
    wish: int | None = None
    change: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.grace_seconds <= MAX_STOP_GRACE.total_seconds():
            raise ValueError("The grace of a stop must be between 0 s and one day.")


class Outcome(StrEnum):
    """How a driver ended."""

    COMPLETED = "completed"
    """The script ended and every query had ended without an error."""
    STOPPED = "stopped"
    """A stop was requested."""
    FENCED = "fenced"
    """A newer epoch owns the stream."""
    FAILED = "failed"
    """A query or the script raised, or a rule stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Record):
    """
    The driver's own reason for its end; a killed driver leaves none.

    :param retryable: False when the driver refused to run: the same attempt fails the same way.
    :param condition: Spark's error condition, e.g. ``STREAM_FAILED``.
    :param conditions: All conditions named in the message, innermost last.
    :param query: The query that failed first.
    :param batch_id: The batch it was in.
    :param failure_kind: The kind of failure; ``None`` without a failure.
    :param signature: Equal for the same failure of the same query, independent of ids and numbers
        in its message.
    :param offsets: Source offsets at which the failed batch ends, one text a source, each at most
        500 characters.
    :param rows: Rows of the failed batch with the value that the error names, as ``line 3 of file:/in/a.json``.
    :param remedy: The next step, in one or two sentences.
    :param cut_off: The driver wrote this just before it ended itself, without a batch boundary: a
        batch may keep writing until its process is gone.
    :param unbegun: By query, the batch that Spark had planned and the driver did not let begin,
        where no earlier driver can have begun it either: no sink and no state knows of it.
    """

    KIND: ClassVar[str] = "exit"

    epoch: int
    outcome: Outcome
    reason: str
    ended_at: datetime
    retryable: bool = True
    exception_class: str | None = None
    condition: str | None = None
    conditions: tuple[str, ...] = ()
    query: str | None = None
    batch_id: int | None = None
    failure_kind: FailureKind | None = None
    signature: str | None = None
    offsets: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    remedy: str = ""
    cut_off: bool = False
    unbegun: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationProof(Record):
    """
    Proof that an epoch's driver is gone, or the declaration of a named user.

    :param override: True when a user declares an end that no process could observe.
    """

    KIND: ClassVar[str] = "death"

    epoch: int
    evidence: str
    by: str
    override: bool
    declared_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog(Record):
    """
    The end of a failed driver's output, kept when it was judged; ``epochs/000017/log.json``.

    The output itself may go with its pod, its worker or its host.

    :param place: Where all of it was.
    :param text: Masked; it begins with a whole line.
    :param size: Bytes it had, where that is known.
    """

    KIND: ClassVar[str] = "driver_log"

    epoch: int
    place: str
    text: str
    kept_at: datetime
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryClaim(Record):
    """
    Which Spark query a checkpoint of this stream belongs to, written after its first start.

    :param query_id: The id in the checkpoint's ``metadata`` file.
    :param batch_shift: Added to Spark's batch id before a ``foreachBatch`` function sees it: it
        makes the numbers of one lane continue the other's after a handover on one sink.
    :param absorb: A batch that is in the sink already, written by the other lane. While it is
        planned and not committed, the next driver runs it with its output discarded before it
        starts the query.
    :param counts_from: The first batch of this checkpoint that is written to the common output
        after a handover. Earlier batches went elsewhere, or were discarded, so no rollback may go
        back to before it. ``None`` for a query that was never handed over.
    """

    KIND: ClassVar[str] = "query_claim"

    query: str
    query_id: str
    checkpoint: str
    epoch: int
    batch_shift: int = 0
    absorb: int | None = None
    counts_from: int | None = None


class OrderAct(StrEnum):
    """The actions of an order to a driver at the barrier."""

    ABSORB = "absorb"
    """Run the one planned batch of each query with its output thrown away, and wait again."""
    RELEASE = "release"
    """Continue: the queries start as the script says, after what their claims say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyOrder(Record):
    """
    An order to a driver at the barrier.

    :param number: From 1.
    :param absorb: For ``ABSORB``: by query, the batch that its checkpoint has planned and not
        committed. A query that is not named waits on; one that is not at the barrier is an error in
        the answer, and absorbs by its claim when it comes to its start.
    """

    KIND: ClassVar[str] = "standby_order"

    epoch: int
    number: int
    act: OrderAct
    at: datetime
    by: str
    absorb: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyAnswer(Record):
    """
    The result of an order.

    :param committed: By query, the batch that its checkpoint has committed now.
    :param error: Why it failed, in words; empty without an error.
    """

    KIND: ClassVar[str] = "standby_answer"

    epoch: int
    number: int
    at: datetime
    committed: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Record):
    """
    The queries of a standby driver that have come to the barrier; ``epochs/000017/barrier.json``.

    :param queries: Names, in the order in which the script starts them. A script that waits for its
        first query shows only that one.
    """

    KIND: ClassVar[str] = "barrier"

    epoch: int
    queries: tuple[str, ...]
    at: datetime
