"""
Advice → size: the number of executors that a form may take over instead of a typed one.

Only this one can be taken. More state partitions need another checkpoint, and a processing trigger
stands in the script; the report says both. Where the advice cannot become a number of executors it
is refused with the reason, and nothing else is put in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.progress import BatchProgress
from airflow_streaming.core.upgrade.sizing import (
    MIN_BATCHES,
    Size,
    SizedSetting,
    advise,
    busy_shares,
    telling,
)
from airflow_streaming.exceptions import SpecError

EXECUTORS: Final = "spark.executor.instances"
CORES_EACH: Final = "spark.executor.cores"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSource:
    """
    Where a size comes from that a stream is about to be given.

    :param size: Its name in the form, e.g. ``executors``.
    :param source: In words.
    """

    size: str
    value: str
    source: str


def advised_executors(
    recent: Mapping[str, Sequence[BatchProgress]], size: Size, conf: Mapping[str, str]
) -> SizeSource:
    """
    Return the number of executors that the advice on cores comes to.

    :param recent: As for ``advise``.
    :param size: What the stream runs with.
    :param conf: The configuration that it runs with.
    :raises SpecError: no number of executors follows from its figures, with the reason.
    """
    advice = next((a for a in advise(recent, size) if a.setting is SizedSetting.CORES), None)
    if advice is None:
        raise SpecError(f"There is no advice on the size to take: {_why_none(recent, size)}")
    figures = f"{advice.reason} {size.cores} cores now, {advice.suggested:g} advised"
    executors, each = _fixed(conf)
    if executors * each != size.cores:
        raise SpecError(
            f"The advice on the size cannot be taken as a number of executors: the cores do not "
            f"come from {EXECUTORS} and {CORES_EACH} alone. Change the conf that gives them. "
            f"{figures}."
        )
    wanted = math.ceil(advice.suggested / each)
    if wanted == executors:
        raise SpecError(
            f"There is no advice on the size to take: at {each} cores each it comes to the "
            f"{executors} executors that there are. {figures}."
        )
    source = f"Advised from the last {len(recent[advice.query])} batches. {figures}, {each} each."
    return SizeSource(size="executors", value=str(wanted), source=source)


def _fixed(conf: Mapping[str, str]) -> tuple[int, int]:
    """Return the executors and the cores of each where a configuration fixes both, else zeros."""
    executors, each = conf.get(EXECUTORS, ""), conf.get(CORES_EACH, "")
    is_fixed = executors.isdecimal() and each.isdecimal()
    if not is_fixed or conf.get(_DYNAMIC, "").lower() == "true":
        return 0, 0
    return int(executors), int(each)


def _why_none(recent: Mapping[str, Sequence[BatchProgress]], size: Size) -> str:
    if not size.cores:
        return f"its configuration does not fix the cores ({EXECUTORS} and {CORES_EACH})."
    shares = busy_shares(telling(recent), size)
    if not shares:
        return f"no query has had input in {MIN_BATCHES} of its recent batches."
    known = {query: share for query, share in shares.items() if share is not None}
    unknown = sorted(shares.keys() - known.keys())
    if unknown:
        return f"query {unknown[0]!r} does not report how fast it works."
    query, share = max(known.items(), key=lambda item: item[1])
    return f"the busiest query, {query!r}, works {share:.0%} of its time."
