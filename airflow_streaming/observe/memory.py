"""
What an observer knows of the past of one epoch; it grows look by look.

It fits in a small dict, which a trigger hands to its task in the event, so that the task need not
wait as long again to come to the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from airflow_streaming.core.observation import Process, ProcessState
from airflow_streaming.core.stillness import Stillness


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    What was seen, by the observer's monotonic clock.

    :param beat: The heartbeat as last seen; 0 before the first.
    :param since: When it was first seen so.
    :param still: How the driver's CPU time moved; ``None`` where it cannot be seen.
    :param suspended_since: When its processes were first seen suspended.
    :param beating: The heartbeat has been seen to rise.
    :param stop_since: When the stop request was first seen.
    """

    epoch: int
    beat: int
    since: float
    still: Stillness | None = None
    suspended_since: float | None = None
    beating: bool = False
    stop_since: float | None = None

    def look(self, clock: float, *, beat: int, process: Process, has_stop: bool) -> Memory:
        """Return the memory after one more look."""
        rises = beat != self.beat
        is_suspended = process.state is ProcessState.SUSPENDED
        return replace(
            self,
            beat=beat,
            since=clock if rises else self.since,
            still=_still(self.still, clock, process.cpu_seconds),
            suspended_since=_first(self.suspended_since, clock) if is_suspended else None,
            beating=self.beating or rises,
            stop_since=_first(self.stop_since, clock) if has_stop else None,
        )

    def without(self, blind: float) -> Memory:
        """Return the memory without the last seconds, in which nobody could look."""
        return replace(
            self,
            since=self.since + blind,
            # Whoever could not be seen could not read a request to stop either.
            stop_since=None if self.stop_since is None else self.stop_since + blind,
            suspended_since=None if self.suspended_since is None else self.suspended_since + blind,
        )

    def to_event(self, clock: float) -> dict[str, Any]:
        """Return the memory as ages in seconds, for another process to go on from."""
        return {
            "epoch": self.epoch,
            "beat": self.beat,
            "silent_for": clock - self.since,
            "flat_for": None if self.still is None else clock - self.still.since,
            "cpu": None if self.still is None else self.still.cpu,
            "suspended_for": _age(self.suspended_since, clock),
            "stopping_for": _age(self.stop_since, clock),
        }

    @classmethod
    def from_event(cls, data: dict[str, Any], clock: float) -> Self:
        """Go on from another process's memory."""
        flat_for, cpu = data.get("flat_for"), data.get("cpu")
        return cls(
            epoch=int(data["epoch"]),
            beat=int(data["beat"]),
            since=clock - float(data["silent_for"]),
            still=None
            if flat_for is None or cpu is None
            else Stillness(at=clock, cpu=float(cpu), since=clock - float(flat_for)),
            suspended_since=_moment(data.get("suspended_for"), clock),
            stop_since=_moment(data.get("stopping_for"), clock),
        )


def _still(before: Stillness | None, clock: float, cpu: float | None) -> Stillness | None:
    if cpu is None:
        return None
    return Stillness.begin(clock, cpu) if before is None else before.look(clock, cpu)


def _first(before: float | None, clock: float) -> float:
    return clock if before is None else before


def _age(moment: float | None, clock: float) -> float | None:
    return None if moment is None else clock - moment


def _moment(age: Any, clock: float) -> float | None:
    return None if age is None else clock - float(age)
