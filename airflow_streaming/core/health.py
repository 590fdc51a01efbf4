"""
Observation → Verdict: what is the matter with a driver and its queries.

"No data" is not "healthy", "slow" is not "dead", and "could not look" is not "failed". The judge
sees values only. Durations in an observation were measured by the observer's own clock, those in a
status by the driver's; they are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from airflow_streaming.core.epoch import Death, Epoch, Exit, Launch, Outcome
from airflow_streaming.core.status import DriverState, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """
    When silence becomes a verdict.

    :param hang_after: Silence of a driver that uses no CPU time, or that is suspended, after which
        it is hung. A garbage-collection pause on a crowded machine was seen to last 20 s.
    :param busy_hang_after: The same for a driver that does use CPU time.
    :param startup_timeout: Time a launched driver has for its first sign of life; two Spark
        sessions that start together on two busy cores were measured to need 120 s.
    """

    hang_after: timedelta = timedelta(seconds=45)
    busy_hang_after: timedelta = timedelta(minutes=10)
    startup_timeout: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        for name in ("hang_after", "startup_timeout"):
            if getattr(self, name) < timedelta(seconds=10):
                raise ValueError(f"{name} below 10 s takes a pause for a hang; the least is 10 s.")


SPAWN_GRACE: Final = timedelta(seconds=30)
"""Between creating an epoch and recording its driver a launcher needs milliseconds; this is how
long another task takes it for still at work."""

LAST_WORD_GRACE: Final = timedelta(seconds=60)
"""From its exit record to the end of its process a driver was measured to need 0.5 to 3 s; where
the process cannot be seen, it is given this long."""

BUSY_SHARE: Final = 0.005
"""A frozen JVM uses no CPU at all, an idle one 1 to 5 % of a core (measured on Spark 4.3)."""


class ProcessState(StrEnum):
    """What a launcher sees of a driver's processes."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    """Alive but stopped, as by ``SIGSTOP``."""
    GONE = "gone"
    """Proved: no process of the driver exists."""
    UNSEEN = "unseen"
    """This observer cannot see the driver's host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """
    What a launcher sees of a driver's processes.

    :param cpu_seconds: CPU time used so far, where it can be seen.
    :param detail: The evidence in words, without a full stop.
    """

    state: ProcessState
    detail: str
    cpu_seconds: float | None = None

    @classmethod
    def gone(cls, detail: str) -> Self:
        """Say that no process of the driver exists."""
        return cls(state=ProcessState.GONE, detail=detail)

    @classmethod
    def unseen(cls, detail: str) -> Self:
        """Say that the driver's host cannot be seen from here."""
        return cls(state=ProcessState.UNSEEN, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """
    Everything one look at an epoch found.

    :param silent_for: How long this observer has seen the heartbeat stand still.
    :param cpu_in_silence: CPU seconds used in that time, where they can be seen.
    :param beating: This observer has itself seen the heartbeat rise. A status that was merely read
        may be an hour old, and no clock of ours can tell.
    :param now: The observer's clock.
    """

    epoch: Epoch
    process: Process
    now: datetime
    launch: Launch | None = None
    status: Status | None = None
    exit: Exit | None = None
    death: Death | None = None
    silent_for: timedelta = timedelta(0)
    cpu_in_silence: float | None = None
    beating: bool = False

    @property
    def is_dead(self) -> bool:
        """Tell whether the driver is proved gone, or declared so by a person."""
        if self.process.state is ProcessState.UNSEEN and self.exit is not None:
            # It says itself that its queries have ended, and it has fallen silent.
            return self.death is not None or self.silent_for >= LAST_WORD_GRACE
        return self.death is not None or self.process.state is ProcessState.GONE


class VerdictState(StrEnum):
    """What an observation means."""

    STARTING = "starting"
    HEALTHY = "healthy"
    IDLE = "idle"
    """Every query waits and no source has data."""
    SLOW = "slow"
    """Silent, but its processes are at work."""
    STOPPING = "stopping"
    """It was asked to stop, or has said its last word and is going down."""
    HUNG = "hung"
    UNREACHABLE = "unreachable"
    """Silent, and its host cannot be seen from here."""
    FAILED = "failed"
    """Ended with an error of its own."""
    DEAD = "dead"
    """Gone without a word: killed, out of memory, host rebooted."""
    COMPLETED = "completed"
    STOPPED = "stopped"


ENDED: Final = frozenset(
    {VerdictState.FAILED, VerdictState.DEAD, VerdictState.COMPLETED, VerdictState.STOPPED}
)
WELL: Final = frozenset({VerdictState.HEALTHY, VerdictState.IDLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What is the matter, and why.

    :param healthy_for: How long the driver has been making progress, by its own clock.
    """

    state: VerdictState
    reason: str
    healthy_for: timedelta = timedelta(0)

    @property
    def has_ended(self) -> bool:
        """Tell whether the driver is proved gone."""
        return self.state in ENDED

    @property
    def is_well(self) -> bool:
        """Tell whether the stream does its work, or has none to do."""
        return self.state in WELL


def judge(seen: Observation, rules: HealthRules) -> Verdict:
    """Judge one observation."""
    if _is_being_spawned(seen):
        return Verdict(
            state=VerdictState.STARTING,
            reason=f"Epoch {seen.epoch.number} was begun moments ago; its driver is being started.",
        )
    if seen.is_dead:
        return _judge_dead(seen)
    return _judge_silence(seen, rules) or _judge_alive(seen)


def _judge_dead(seen: Observation) -> Verdict:
    number = seen.epoch.number
    if seen.exit is not None:
        state = {
            Outcome.COMPLETED: VerdictState.COMPLETED,
            Outcome.STOPPED: VerdictState.STOPPED,
            Outcome.FENCED: VerdictState.STOPPED,
            Outcome.FAILED: VerdictState.FAILED,
        }[seen.exit.outcome]
        return Verdict(
            state=state, reason=_closed(f"Driver of epoch {number} ended: {seen.exit.reason}")
        )
    proof = seen.death.evidence if seen.death is not None else seen.process.detail
    return Verdict(
        state=VerdictState.DEAD,
        reason=_closed(f"Driver of epoch {number} is gone and left no exit record: {proof}"),
    )


def _is_being_spawned(seen: Observation) -> bool:
    # Another task may be between "epoch created" and "driver recorded". Taking the next epoch now
    # would fence a driver that has not even begun. The age may be negative: clocks get set back.
    traces = (seen.launch, seen.status, seen.exit, seen.death)
    unborn = all(trace is None for trace in traces)
    return unborn and abs(seen.now - seen.epoch.created_at) < SPAWN_GRACE


def _judge_silence(seen: Observation, rules: HealthRules) -> Verdict | None:
    number, silent = seen.epoch.number, _seconds(seen.silent_for)
    patience = rules.startup_timeout if seen.status is None else rules.hang_after
    if seen.process.state is ProcessState.SUSPENDED and seen.silent_for >= rules.hang_after:
        return Verdict(
            state=VerdictState.HUNG,
            reason=f"Driver of epoch {number} is suspended ({seen.process.detail}) and has been "
            f"silent for {silent}.",
        )
    if seen.silent_for < patience:
        return None
    if seen.process.state is ProcessState.UNSEEN:
        return Verdict(
            state=VerdictState.UNREACHABLE,
            reason=f"Driver of epoch {number} has been silent for {silent} and cannot be looked "
            f"at: {seen.process.detail}.",
        )
    if _is_busy(seen) and seen.silent_for < rules.busy_hang_after:
        return Verdict(
            state=VerdictState.SLOW,
            reason=f"Driver of epoch {number} has been silent for {silent} but uses CPU time.",
        )
    return Verdict(
        state=VerdictState.HUNG,
        reason=f"Driver of epoch {number} has been silent for {silent} ({seen.process.detail}).",
    )


def _is_busy(seen: Observation) -> bool:
    used = seen.cpu_in_silence
    # After its last word a driver has nothing to be busy with.
    return (
        seen.exit is None
        and used is not None
        and used > BUSY_SHARE * seen.silent_for.total_seconds()
    )


def _judge_alive(seen: Observation) -> Verdict:
    number, status = seen.epoch.number, seen.status
    if seen.exit is not None:
        return Verdict(
            state=VerdictState.STOPPING,
            reason=_closed(f"Driver of epoch {number} is going down: {seen.exit.reason}"),
        )
    if status is None:
        return Verdict(
            state=VerdictState.STARTING, reason=f"Driver of epoch {number} is starting Spark."
        )
    if status.state is DriverState.STOPPING:
        return Verdict(
            state=VerdictState.STOPPING, reason=f"Driver of epoch {number} is stopping its queries."
        )
    if status.first_progress_at is None and not _waits_for_data(status):
        return Verdict(
            state=VerdictState.STARTING,
            reason=f"Driver of epoch {number} has not committed a batch yet.",
        )
    return _judge_queries(status)


def _judge_queries(status: Status) -> Verdict:
    active = [query for query in status.queries if query.active]
    waiting = all(not q.processing and not q.data_available for q in active)
    # A query that waits since its start has shown as much as it can.
    progressed_for = status.progressed_for or status.at - status.started_at
    return Verdict(
        state=VerdictState.IDLE if waiting else VerdictState.HEALTHY,
        reason=f"{len(active)} of {len(status.queries)} queries active, {status.batches} batches "
        f"committed in epoch {status.epoch}" + (", waiting for data." if waiting else "."),
        healthy_for=progressed_for,
    )


def _waits_for_data(status: Status) -> bool:
    # Spark's word for a query past its initialisation: "Waiting for data to arrive" or "Waiting
    # for next trigger" (MicroBatchExecution).
    return bool(status.queries) and all(
        query.active and query.message.startswith("Waiting") and not query.data_available
        for query in status.queries
    )


def _closed(sentence: str) -> str:
    # Last words and evidence come from outside, with or without a full stop.
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
