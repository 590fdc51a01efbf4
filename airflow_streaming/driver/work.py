"""
Is the batch in work at work? Signs of work and the durations that follow from them, beat by beat.

A long batch is slow as long as it shows signs of work and stalled when it shows none. A sign is a
finished task, a new job or stage, records that moved, or CPU time used by the driver's processes
on the batch's behalf. Tasks on other machines are seen by the first three only.

Durations are sums of the steps between beats. A step counts for at most twice the longest rest
between beats, so that a driver which was suspended for an hour does not wake up with an hour of
silence that no batch is to blame for.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

BUSY_SHARE: Final = 0.2
"""Share of a core over a beat that counts as work. A driver at rest was measured to use 0.005 of a
core, and its heartbeat takes 0.05 at most."""

LONGEST_STEP: Final = 20.0
"""Seconds; the longest rest between two beats is 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRun:
    """
    One run of a query's processing trigger: it plans and works on one batch, or finds nothing.

    :param batch: The batch.
    :param started: Tells this run from the next look for the same batch, by the JVM's clock.
    """

    batch: int | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """
    What one beat saw of a query.

    :param at: Monotonic seconds.
    :param run: The trigger's run in work; ``None`` while the query waits.
    :param batches: Batches committed so far.
    :param marks: Changes whenever a task finishes, or a job or stage begins; ``None``: not known.
    :param moved: Records moved by the tasks that run; ``None``: not known.
    :param active_tasks: Tasks that run; ``None``: not known.
    :param cpu: Seconds of CPU time the driver's processes have used; ``None``: not known.
    :param ready: No batch is in work although the source has data.
    :param alone: No other query is processing, so that CPU time is this one's even without tasks.
    """

    at: float
    run: TriggerRun | None = None
    batches: int = 0
    marks: Hashable = None
    moved: float | None = None
    active_tasks: int | None = None
    cpu: float | None = None
    ready: bool = False
    alone: bool = False


class WorkClock:
    """Counts for one run of a query how long its batch has been in work, quiet, or uncommitted."""

    def __init__(self) -> None:
        self._last: Beat | None = None
        self._batch_for = self._quiet_for = self._uncommitted_for = self._ready_for = 0.0
        self._has_evidence = False

    @property
    def batch_for_s(self) -> float | None:
        """Return how long the batch in work has been in work; ``None`` while none is."""
        return None if self._run is None else self._batch_for

    @property
    def quiet_for_s(self) -> float | None:
        """Return how long it has shown no sign of work; ``None`` where no sign could be seen."""
        return self._quiet_for if self._run is not None and self._has_evidence else None

    @property
    def committed_ago_s(self) -> float | None:
        """Return the time since the last commit seen, or since the first beat."""
        return None if self._last is None else self._uncommitted_for

    @property
    def ready_for_s(self) -> float | None:
        """Return how long the source has had data and no batch was in work."""
        return None if self._last is None else self._ready_for

    @property
    def planned_batch(self) -> int | None:
        """Return the batch in work."""
        return None if self._run is None else self._run.batch

    @property
    def active_tasks(self) -> int | None:
        """Return the tasks that run."""
        return None if self._last is None else self._last.active_tasks

    def step(self, beat: Beat) -> None:
        """Take the next beat."""
        before, self._last = self._last, beat
        if before is None:
            return
        step = min(max(0.0, beat.at - before.at), LONGEST_STEP)
        committed = beat.batches > before.batches
        self._uncommitted_for = 0.0 if committed else self._uncommitted_for + step
        waits = beat.ready and before.ready and not committed
        self._ready_for = self._ready_for + step if waits else 0.0
        if beat.run is None or beat.run != before.run:
            self._batch_for = self._quiet_for = 0.0
            self._has_evidence = False
            return
        self._batch_for += step
        signs = signs_of_work(before, beat)
        self._has_evidence = self._has_evidence or signs is not None
        self._quiet_for = 0.0 if signs else self._quiet_for + step

    @property
    def _run(self) -> TriggerRun | None:
        return None if self._last is None else self._last.run


def signs_of_work(before: Beat, beat: Beat) -> bool | None:
    """Tell whether there was work between two beats of one run; ``None`` when nothing could tell."""
    if before.marks is None or beat.marks is None:
        tasks = None
    else:
        tasks = before.marks != beat.marks or _has_moved(before, beat)
    busy = _is_busy(before, beat) if beat.active_tasks or beat.alone else None
    if tasks is None and busy is None:
        return None
    return bool(tasks or busy)


def _has_moved(before: Beat, beat: Beat) -> bool:
    return before.moved is not None and beat.moved is not None and before.moved != beat.moved


def _is_busy(before: Beat, beat: Beat) -> bool | None:
    if before.cpu is None or beat.cpu is None or beat.at <= before.at:
        return None
    return (beat.cpu - before.cpu) / (beat.at - before.at) >= BUSY_SHARE
