"""
The rules of other autoscalers, for ``benchmarks.autoscale``: as their documentation has them, not their code.

Spark's dynamic allocation asks for executors while tasks wait, at first after 1 s and then twice as many every second,
and lets an executor go that was idle for 60 s. A batch has as many tasks as partitions, whatever the load.

Flink's autoscaler (operator's documentation, defaults): the true rate of the last 15 minutes, a target utilization of
0.7 with a boundary of 0.3, a stabilization of 5 minutes after a change, scale-down at most by 60 % and at most once an
hour, a backlog read within 30 minutes beside the time of a restart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from airflow_streaming.supervision.scaling.autoscale import Sample

PARTITIONS: Final = 200
CORES_EACH: Final = 4
IDLE_S: Final = 60
WINDOW_S: Final = 900
STABLE_S: Final = 300
DOWN_EVERY_S: Final = 3_600
TARGET: Final = 0.7
BOUNDARY: Final = 0.3
CATCH_UP_S: Final = 1_800
DOWN_FACTOR: Final = 0.6


@dataclass(slots=True)
class DynamicAllocation:
    """Spark's rules; a change costs no restart."""

    most: int
    least: int = 1
    working_s: int = 0
    idle_s: int = 0
    ask: int = 1

    def after(self, executors: int, *, is_working: bool) -> int:
        """Return the executors one second later."""
        if not is_working:
            self.working_s, self.ask, self.idle_s = 0, 1, self.idle_s + 1
            return self.least if self.idle_s >= IDLE_S else executors
        self.working_s, self.idle_s = self.working_s + 1, 0
        useful = min(self.most, math.ceil(PARTITIONS / CORES_EACH))
        if self.working_s <= 1 or executors >= useful:
            return executors
        added, self.ask = self.ask, 2 * self.ask
        return min(useful, executors + added)


@dataclass(slots=True)
class FlinkRules:
    """The rules of Flink's autoscaler; a change costs a restart."""

    most: int
    gap: int
    changed_at: float = -math.inf
    down_at: float = -math.inf
    samples: list[Sample] = field(default_factory=list)

    def wanted(
        self, executors: int, now: int, start: datetime, seen: Sequence[Sample], backlog: float
    ) -> int:
        """Return the executors that the rules want now."""
        inside = [one for one in seen if (one.at - start).total_seconds() > now - WINDOW_S]
        span = min(WINDOW_S, now - self.changed_at)
        if now - self.changed_at < STABLE_S or span <= 0 or len(inside) < 2:
            return executors
        rows, busy = sum(one.rows for one in inside), sum(one.seconds for one in inside)
        watched = (inside[-1].at - inside[0].at).total_seconds()
        if not busy or not rows or not watched:
            return executors
        rate = sum(one.rows for one in inside[1:]) / watched
        true_rate = rows / busy
        if true_rate * (
            TARGET - BOUNDARY
        ) <= rate and rate + backlog / CATCH_UP_S <= true_rate * min(1.0, TARGET + BOUNDARY):
            return executors
        catch_up = (backlog + rate * self.gap) / CATCH_UP_S
        found = math.ceil(executors * (rate + catch_up) / (true_rate * TARGET))
        found = min(max(1, found, math.ceil(executors * (1 - DOWN_FACTOR))), self.most)
        if found < executors:
            if now - self.down_at < DOWN_EVERY_S:
                return executors
            self.down_at = now
        if found != executors:
            self.changed_at = now
        return found
