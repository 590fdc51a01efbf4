"""
The gain of a change of the size, its cost, and the executors of other streams.

More executors help a stream only where its batches divide: a skewed key, a slow sink or a single partition makes them
useless. The pace before a change is in its record, the pace after it in the present figures. Both are rows for a second
of work: an estimated capacity jumps with the fit of a burst, and undid good changes in the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.model.durations import age_of
from airflow_streaming.model.records.size_change import SizeChange, SizeCode

LEAST_GAIN: Final = 0.2
"""Share of the expected gain below which a change had no effect."""
LEAST_RATIO: Final = 1.25
"""Growth from which on a gain can be told from the noise of batches."""
GC_SHARE: Final = 0.1
"""Share of the tasks' time in garbage collection from which on memory is the reason."""


def gain_of(change: SizeChange, pace: float) -> float | None:
    """
    Return the share of the expected gain that a change has brought; ``None`` where it cannot be told.

    :param pace: Rows for a second of work now.
    """
    before = (change.figures or {}).get("pace", 0.0)
    ratio = change.executors / change.before
    if before <= 0 or ratio < LEAST_RATIO or not math.isfinite(pace):
        return None
    return (pace - before) / (before * (ratio - 1))


def blocked_until(
    changes: Sequence[SizeChange], now: datetime, blocked_for: timedelta
) -> datetime | None:
    """Return until when no change to more executors is made, because the last one had no effect."""
    undone = [change.at for change in changes if change.code is SizeCode.UNDO]
    ends = [at + blocked_for for at in undone if age_of(at, now) < blocked_for]
    return max(ends, default=None)


def rounds_text(executors: int, cores_each: int, partitions: int | None) -> str:
    """Return the idle cores in the last round of the state's tasks, as a sentence; empty without any."""
    cores = executors * cores_each
    if not partitions or not cores or partitions % cores == 0:
        return ""
    rounds = math.ceil(partitions / cores)
    idle = 1 - partitions / (rounds * cores)
    return (
        f" Its {cores} cores do not divide {partitions} state partitions: {rounds} rounds, {idle:.0%} of their time "
        "idle."
    )


def memory_text(gc_share: float | None) -> str:
    """Return that the executors lack memory; empty where they do not, or do not tell."""
    if gc_share is None or gc_share < GC_SHARE:
        return ""
    return (
        f" Garbage collection takes {gc_share:.0%} of the tasks' time: more spark.executor.memory helps more than "
        "executors."
    )


def within_quota(wanted: int, present: int, elsewhere: int, quota: int | None) -> int:
    """
    Return the executors that the quota of the home leaves to a stream, at least its present ones.

    :param elsewhere: Executors of the home's other streams.
    """
    return wanted if quota is None else max(present, min(wanted, quota - elsewhere))
