"""How many executors a stream may have, and how many its configuration asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.fields import check_values, named_fields
from airflow_streaming.model.wire import JsonValue

EXECUTORS: Final = "spark.executor.instances"
CORES_EACH: Final = "spark.executor.cores"
MOST_CORES: Final = "spark.cores.max"
DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_DAY: Final = timedelta(days=1)
_MINUTES_OF_DAY: Final = 1_440
MOST_EXECUTORS: Final = 100_000
"""More than any cluster has, and few enough for every count that Spark keeps of them."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscale(JsonValue):
    """
    How many executors a stream may have, and when their number changes.

    The number is the one at which the busiest query works ``target`` of its time, and which reads an
    existing backlog within ``catch_up``. The driver changes its size between two batches; where it
    cannot, a change is a planned restart. ``up_after``, ``down_after``, ``cool_down`` and ``changes_a_day``
    bound how often that is. The blackouts of the stream's restart policy hold here too.

    :param min: Fewest executors, at least 1.
    :param max: Most executors, at most 100,000.
    :param target: Share of its time that the busiest query should work, above 0 and below 1.
    :param up_above: Share above which it gets more; between ``target`` and this nothing changes.
    :param up_after: How long figures must show that it needs more.
    :param down_after: How long they must show that it needs fewer.
    :param catch_up: Time within which a backlog should be read.
    :param cool_down: Least time between two changes.
    :param changes_a_day: Most changes in any 24 hours, 1 to 1,440; at most half of them make the stream smaller.
    :param recommend_only: Record the changes and make none; the stream keeps the size of its configuration.
    :param blocked_for: After a change to more executors that had no effect, and was undone, the next one waits
        this long.
    :param home_executors: Most executors of all streams in the home together; a stream does not grow beyond.
    """

    WHAT: ClassVar[str] = "autoscale"

    min: int
    max: int
    target: float = 0.7
    up_above: float = 0.85
    up_after: timedelta = timedelta(minutes=2)
    down_after: timedelta = timedelta(minutes=30)
    catch_up: timedelta = timedelta(minutes=10)
    cool_down: timedelta = timedelta(minutes=5)
    changes_a_day: int = 24
    recommend_only: bool = False
    blocked_for: timedelta = timedelta(hours=6)
    home_executors: int | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if not 1 <= self.min <= self.max <= MOST_EXECUTORS:
            raise SpecError(f"Autoscale needs 1 <= min <= max <= {MOST_EXECUTORS:,} executors.")
        if not 0 < self.target < self.up_above < 1:
            raise SpecError("Autoscale needs 0 < target < up_above < 1.")
        if not 1 <= self.changes_a_day <= _MINUTES_OF_DAY:
            raise SpecError(f"changes_a_day of Autoscale must be 1 to {_MINUTES_OF_DAY:,}.")
        for name in ("up_after", "down_after", "catch_up", "cool_down", "blocked_for"):
            if not timedelta(0) < getattr(self, name) <= _DAY:
                raise SpecError(f"{name} of Autoscale must be above 0 s and at most one day.")

        if self.home_executors is not None and self.home_executors < self.min:
            raise SpecError("home_executors of Autoscale must be at least min.")

    def within(self, executors: int) -> int:
        """Return a number of executors brought inside the limits."""
        return min(max(executors, self.min), self.max)


def configured_executors(conf: Mapping[str, str]) -> int | None:
    """Return the executors that a configuration asks for; ``None`` where it does not fix them."""
    if conf.get(EXECUTORS, "").isdecimal():
        return int(conf[EXECUTORS]) or None
    most, each = conf.get(MOST_CORES, ""), executor_cores(conf)
    return int(most) // each or None if most.isdecimal() and each else None


def executor_cores(conf: Mapping[str, str]) -> int:
    """Return the cores that a configuration gives each executor; 0 where it does not say."""
    each = conf.get(CORES_EACH, "")
    return int(each) if each.isdecimal() else 0


def is_dynamic(conf: Mapping[str, str]) -> bool:
    """Tell whether Spark itself chooses the number of executors."""
    return conf.get(DYNAMIC, "").lower() == "true"
