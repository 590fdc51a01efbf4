"""
Sizing: advice on cores, executors and the processing trigger from recent figures.

It is advice, and no program follows it automatically, except for the number of executors: a form
may take it through ``advised_size``, which refuses with the reason where the advice cannot become a
number of executors. A user enters the number of state partitions into a rescale by hand, and edits
a processing trigger in the script; the report has both. A figure that was not reported gives no
advice, and a stream that idles is not called too large on one quiet hour: the busiest query and the
slowest usual batch decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.advice.state_size import STATE_PER_PARTITION, partitions_for, stored_bytes
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.progress import BatchProgress

TARGET: Final = 0.7
"""Share of its time a stream should work, so that it can catch up after a pause."""
TOO_BUSY: Final = 0.85
TOO_IDLE: Final = 0.25
MIN_BATCHES: Final = 5
"""Batches below which figures say nothing: the first ones of a driver warm up."""

EXECUTORS: Final = "spark.executor.instances"
CORES_EACH: Final = "spark.executor.cores"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"


class SizedSetting(StrEnum):
    """The subject of an advice."""

    CORES = "cores"
    STATE_PARTITIONS = "state_partitions"
    PROCESSING_TRIGGER = "processing_trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAdvice:
    """
    A piece of advice.

    :param present: The value now, where it is known.
    :param suggested: The value to try.
    :param reason: The figures behind it.
    :param caution: Needs of the change beyond a restart; empty without any.
    """

    setting: SizedSetting
    suggested: float
    reason: str
    present: float | None = None
    query: str = ""
    caution: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """
    A stream's size.

    :param cores: Cores over all executors.
    :param state_partitions: Pinned number of state partitions, by query.
    :param intervals_s: Interval of the processing trigger, by query; missing where Spark starts the
        next batch at once.
    """

    cores: int | None = None
    state_partitions: Mapping[str, int] | None = None
    intervals_s: Mapping[str, float] | None = None


def advise(recent: Mapping[str, Sequence[BatchProgress]], size: Size) -> tuple[SizeAdvice, ...]:
    """
    Return the advice from each query's recent batches, gravest first; empty if all is well.

    :param recent: Batches of each query with input, oldest first.
    """
    batches = telling(recent)
    return (*_cores(batches, size), *_intervals(batches, size), *_partitions(batches, size))


def telling(recent: Mapping[str, Sequence[BatchProgress]]) -> dict[str, Sequence[BatchProgress]]:
    """Return the batches of the queries that have enough of them to say something."""
    return {query: batches for query, batches in recent.items() if len(batches) >= MIN_BATCHES}


def busy_shares(told: Mapping[str, Sequence[BatchProgress]], size: Size) -> dict[str, float | None]:
    """Return the share of its time that each query works, ``None`` where that was not reported."""
    intervals = size.intervals_s or {}
    return {query: busy_share(batches, intervals.get(query)) for query, batches in told.items()}


def busy_share(batches: Sequence[BatchProgress], interval_s: float | None) -> float | None:
    """
    Return the share of its time that a query works, at the pace of its slowest usual batch.

    With an interval it is the batch's duration against it; without one the rate at which rows come
    against the rate at which they are processed. Above 1 the query falls behind.
    """
    if interval_s:
        return _usual_high([b.duration_ms / 1000 for b in batches]) / interval_s
    shares = [
        b.input_rows_per_second / b.processed_rows_per_second
        for b in batches
        if b.input_rows_per_second is not None and b.processed_rows_per_second
    ]
    return _usual_high(shares) if len(shares) >= MIN_BATCHES else None


def _cores(batches: Mapping[str, Sequence[BatchProgress]], size: Size) -> Iterator[SizeAdvice]:
    shares = busy_shares(batches, size)
    known = {query: share for query, share in shares.items() if share is not None}
    # An unmeasured query may be the busy one.
    if not size.cores or not known or len(known) < len(batches):
        return
    query, share = max(known.items(), key=lambda item: item[1])
    wanted = max(1, math.ceil(size.cores * share / TARGET))
    if share > TOO_BUSY:
        yield SizeAdvice(
            setting=SizedSetting.CORES,
            present=size.cores,
            suggested=max(wanted, size.cores + 1),
            query=query,
            reason=f"Query {query!r} works {share:.0%} of its time; {TARGET:.0%} leaves room to "
            "catch up.",
        )
    elif share < TOO_IDLE and wanted < size.cores:
        yield SizeAdvice(
            setting=SizedSetting.CORES,
            present=size.cores,
            suggested=wanted,
            query=query,
            reason=f"The busiest query, {query!r}, works {share:.0%} of its time.",
        )


def _intervals(told: Mapping[str, Sequence[BatchProgress]], size: Size) -> Iterator[SizeAdvice]:
    for query, interval in sorted((size.intervals_s or {}).items()):
        batches = told.get(query)
        if batches is None:
            continue
        longest = _usual_high([b.duration_ms / 1000 for b in batches])
        if longest > interval:
            yield SizeAdvice(
                setting=SizedSetting.PROCESSING_TRIGGER,
                present=interval,
                suggested=float(math.ceil(longest / TARGET)),
                query=query,
                reason=f"Batches of query {query!r} take {duration_text(longest)} and are due every "
                f"{duration_text(interval)}.",
            )


def _partitions(batches: Mapping[str, Sequence[BatchProgress]], size: Size) -> Iterator[SizeAdvice]:
    for query, partitions in sorted((size.state_partitions or {}).items()):
        state = max(map(stored_bytes, batches.get(query, ())), default=0)
        if partitions and state / partitions > STATE_PER_PARTITION:
            yield SizeAdvice(
                setting=SizedSetting.STATE_PARTITIONS,
                present=partitions,
                suggested=partitions_for(state),
                query=query,
                reason=f"State of query {query!r} is {state / partitions / 2**20:,.0f} MiB in each "
                f"of {partitions} partitions.",
                caution="State partitions are fixed by the checkpoint: it takes a rescale with "
                "shuffle_partitions (Spark 4.2 and newer, RocksDB), or a new checkpoint.",
            )


def _usual_high(figures: Sequence[float]) -> float:
    # The third quartile: a busy hour counts and one slow batch does not.
    ordered = sorted(figures)
    return ordered[(len(ordered) * 3) // 4] if ordered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSource:
    """
    The origin of a stream's new size.

    :param size: Its name in the form, e.g. ``executors``.
    """

    size: str
    value: str
    source: str


def advised_executors(
    recent: Mapping[str, Sequence[BatchProgress]], size: Size, conf: Mapping[str, str]
) -> SizeSource:
    """
    Return the number of executors that follows from the advice on cores.

    :param recent: As for ``advise``.
    :param size: The stream's present size.
    :param conf: Its present configuration.
    :raises SpecError: no number of executors follows from its figures, with the reason.
    """
    advice = next((a for a in advise(recent, size) if a.setting is SizedSetting.CORES), None)
    if advice is None:
        raise SpecError(f"No advice on the size: {_why_none(recent, size)}")
    figures = f"{advice.reason} {size.cores} cores now, {number_text(advice.suggested)} advised"
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
            f"No advice on the size: at {each} cores each, it gives the present {executors} "
            f"executors. {figures}."
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
