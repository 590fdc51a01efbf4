"""The record of each decided size of a stream, and the configuration that gives a driver this size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.autoscale import (
    EXECUTORS,
    MOST_CORES,
    MOST_EXECUTORS,
    Autoscale,
    configured_executors,
    executor_cores,
    is_dynamic,
)
from airflow_streaming.model.wire import Record

_DYNAMIC_MIN: Final = "spark.dynamicAllocation.minExecutors"
_DYNAMIC_MAX: Final = "spark.dynamicAllocation.maxExecutors"


class SizeCode(StrEnum):
    """Why the number of executors changes, or does not."""

    UP = "up"
    DOWN = "down"
    UNDO = "undo"
    """The last change to more had no effect."""
    WOULD_UP = "would_up"
    WOULD_DOWN = "would_down"
    """A change that is recommended only."""
    BLOCKED = "blocked"
    """A change to more was undone, and the next one waits."""
    QUOTA = "quota"
    """The other streams of the home leave no executor."""
    STEADY = "steady"
    """Its size is right."""
    NO_FIGURES = "no_figures"
    """Too few batches, or too short a time, since the driver started."""
    UNCLEAR = "unclear"
    """The batches do not show how much of their time depends on the number of rows."""
    FIXED_COST = "fixed_cost"
    """Most of a batch's time does not depend on the number of rows, so executors do not help."""
    COOL_DOWN = "cool_down"
    DAY_LIMIT = "day_limit"
    BLACKOUT = "blackout"
    AT_MAX = "at_max"
    """It needs more than the limit allows."""
    AT_MIN = "at_min"
    NOT_ARRIVED = "not_arrived"
    """The cluster has not started all requested executors."""
    LEFT_TO_SPARK = "left_to_spark"
    """Dynamic allocation is on: Spark chooses between the limits."""
    NO_EXECUTORS = "no_executors"
    """The driver works without executors (local mode), or does not report them."""


_RECOMMENDED: Final = frozenset({SizeCode.WOULD_UP, SizeCode.WOULD_DOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChange(Record):
    """
    A change of a stream's number of executors, recorded before it is applied.

    It holds for every launch from then on, as long as the deployment's configuration sets
    ``configured`` executors: a new configured number replaces it.

    :param epoch: The epoch whose figures it follows from.
    :param executors: The new number of executors; ``before`` the old one.
    :param configured: The number in the deployment's own configuration then.
    :param figures: Share of its time that the busiest query worked, rows that came and could be
        processed per second, the backlog; by name.
    """

    KIND: ClassVar[str] = "size_change"

    number: int
    epoch: int
    code: SizeCode
    executors: int
    before: int
    configured: int
    reason: str
    by: str
    at: datetime
    figures: Mapping[str, float] | None = None

    @property
    def is_recommended_only(self) -> bool:
        """Tell whether nothing was changed."""
        return self.code in _RECOMMENDED

    @property
    def sentence(self) -> str:
        """Return the change in words."""
        begin = "Would go from" if self.is_recommended_only else "From"
        return f"{begin} {self.before} to {self.executors} executors: {self.reason}"

    def __post_init__(self) -> None:
        # A driver follows this record, and a forged one must not ask a cluster for a billion executors.
        sizes = (self.executors, self.before, self.configured)
        if not all(1 <= one <= MOST_EXECUTORS for one in sizes):
            raise SpecError(f"A size has 1 to {MOST_EXECUTORS:,} executors.")


def wanted_executors(
    policy: Autoscale | None, conf: Mapping[str, str], newest: SizeChange | None
) -> int | None:
    """
    Return how many executors the next driver gets; ``None`` where its configuration stays as it is.

    :param newest: The newest change of the stream's size.
    """
    configured = configured_executors(conf)
    if policy is None or configured is None or is_dynamic(conf) or policy.recommend_only:
        return None
    counts = (
        newest is not None and newest.configured == configured and not newest.is_recommended_only
    )
    return policy.within(newest.executors if counts and newest else configured)


def sized_conf(
    policy: Autoscale | None, conf: Mapping[str, str], executors: int | None
) -> dict[str, str]:
    """
    Return a configuration with a stream's new size.

    ``spark.executor.instances`` is the size to begin with. A standalone master fixes ``spark.cores.max`` at the start,
    so it is the limit's: the driver asks for its own size at once, and for more later. With dynamic allocation Spark
    keeps the limits, unless the stream sets its own.

    :param executors: As ``wanted_executors`` returns it.
    """
    if policy is None:
        return dict(conf)
    if is_dynamic(conf):
        return {_DYNAMIC_MIN: str(policy.min), _DYNAMIC_MAX: str(policy.max), **conf}
    if executors is None:
        return dict(conf)
    each = executor_cores(conf)
    most = {MOST_CORES: str(max(executors, policy.max) * each)} if each else {}
    return {**conf, EXECUTORS: str(executors), **most}
