"""Risks of state: kept forever, kept in the heap, growing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from airflow_streaming.advice.examined import (
    NO_DRIVER,
    NO_PLANS,
    Advice,
    Facts,
    RiskLevel,
    fine,
    risk,
    unknown,
)
from airflow_streaming.advice.profile import StateStore
from airflow_streaming.advice.profile_conf import STATE_PROVIDER, is_rocksdb
from airflow_streaming.advice.state_size import heaps, state_memory
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.upgrade import HABITS
from airflow_streaming.model.spark.releases import CHECKPOINT_FORMAT
from airflow_streaming.model.status import QueryStatus

_BOUNDED: Final = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
_CONTAINERS: Final = ("spark-", "application_")
"""Beginnings of application ids on Kubernetes and on YARN, whose containers have a limit of memory."""
MANY_KEYS: Final = 1_000_000
GROWTH_BATCHES: Final = 20
"""Fewer batches say nothing about growth."""
MATTERS: Final = 10_000
"""Rows of state below which growth costs nothing."""
GROWTH: Final = 1.2
"""From the first quarter of the history to the last."""
_PUT_BACK: Final = (
    "No change is needed while the sink can be reached from the host of the Airflow task: the launch puts it "
    "back. Begin the next new checkpoint with format 1, as the production profile has it."
)
_TAKE_AGAIN: Final = (
    "Let the function of foreachBatch write every batch again, also after it has written the batch. Begin a new "
    "checkpoint with format 1 for a table that remembers batches."
)


def watermark(facts: Facts) -> Iterator[Advice]:
    """Look for state that is never dropped, as it has no watermark."""
    rule = "watermark"
    yield from _without_figures(rule, facts)
    for query, latest in _stateful(facts):
        if latest.watermark is not None:
            yield fine(rule, f"Its watermark is at {latest.watermark}.", query=query.name)
            continue
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            "It keeps state and has no watermark, so Spark never drops any of it.",
            query=query.name,
            evidence=f"{latest.state_rows:,} rows of state at batch {latest.batch_id}",
            remedy="Add withWatermark() before the stateful operation. It is right as it is only "
            "where the keys are bounded, or the script expires its state by timers or a TTL of "
            "its own.",
        )


def state_store(facts: Facts) -> Iterator[Advice]:
    """Look for state in the heap that is millions of keys, or more than the heaps have room for."""
    rule = "state-store"
    yield from _without_figures(rule, facts)
    for query, latest in _stateful(facts):
        rows, provider = latest.state_rows or 0, _provider(facts, query, latest)
        room = _heap_room(facts)
        if provider and not is_rocksdb(provider) and 0 < room < (latest.state_bytes or 0):
            yield _too_large(rule, query.name, latest, room)
        elif rows <= MANY_KEYS:
            yield fine(rule, f"{rows:,} rows fit any state store.", query=query.name)
        elif provider is None:
            yield unknown(
                rule,
                f"It has {rows:,} rows of state; its state store is neither in conf nor could it "
                "be read from the checkpoint.",
                query=query.name,
            )
        elif is_rocksdb(provider):
            yield fine(rule, f"{rows:,} rows in RocksDB.", query=query.name)
        else:
            yield risk(
                rule,
                RiskLevel.MEDIUM,
                "All its state is in the executors' heap: long garbage collections, and an end by "
                "memory when it grows on.",
                query=query.name,
                evidence=f"{rows:,} rows in {provider.rpartition('.')[2]}"
                + (f", {latest.state_bytes / 2**20:,.0f} MiB" if latest.state_bytes else ""),
                remedy="Begin a new checkpoint with RocksDB, as the production profile has it; a "
                "checkpoint cannot change its store. While all state fits the heap with room to "
                "spare, this store is the faster one.",
            )


def rocksdb_memory(facts: Facts) -> Iterator[Advice]:
    """Look for RocksDB without a bound of its memory in a container with one."""
    rule = "rocksdb-memory"
    for query, latest in _stateful(facts):
        provider = _provider(facts, query, latest)
        bounded = facts.conf.get(_BOUNDED, "false").lower() == "true"
        application = "" if facts.status is None else facts.status.application_id or ""
        is_in_container = application.startswith(_CONTAINERS)
        if not provider or not is_rocksdb(provider):
            yield fine(rule, "Its state is not in RocksDB.", query=query.name)
        elif bounded or not is_in_container:
            yield fine(rule, "RocksDB's memory is bounded, or no container is.", query=query.name)
        else:
            yield risk(
                rule,
                RiskLevel.MEDIUM,
                "RocksDB takes memory outside the heap for each state store without a bound, until the cluster ends "
                "the executor for its memory (OOMKilled).",
                query=query.name,
                evidence=f"{_BOUNDED} is not true",
                remedy=f"Set {_BOUNDED}=true and maxMemoryUsageMB beside it, below spark.executor.memoryOverhead.",
            )


def _heap_room(facts: Facts) -> int:
    """Return the bytes of all heaps in which state can lie; 0 where the conf does not say."""
    found = heaps(facts.conf)
    return 0 if found is None else found[0] * state_memory(found[1])


def _too_large(rule: str, query: str, latest: BatchProgress, room: int) -> Advice:
    state = latest.state_bytes or 0
    return risk(
        rule,
        RiskLevel.HIGH,
        "All its state is in the executors' heap, which has no room for it.",
        query=query,
        evidence=f"{state / 2**20:,.0f} MiB in {latest.state_rows:,} rows; the heaps have "
        f"{room / 2**20:,.0f} MiB that Spark does not take itself",
        remedy=f"Give {math.ceil(state / room)} times the memory, by executors or by "
        "spark.executor.memory, or begin a new checkpoint with RocksDB.",
    )


def _provider(facts: Facts, query: QueryStatus, latest: BatchProgress) -> str | None:
    found = facts.setting(query.name, STATE_PROVIDER)
    if found is None and latest.cache_miss_share is not None:  # a figure that only RocksDB has
        return StateStore.ROCKSDB.provider
    return found


def skipped_state(facts: Facts) -> Iterator[Advice]:
    """Look for state in checkpoint format 2 whose sink skips a batch that it has."""
    rule = "skipped-state"
    if not facts.plans:
        yield unknown(rule, NO_PLANS)
    for plan in facts.plans:
        habit = HABITS.get(plan.sink.sink, SinkReplaySemantics.UNKNOWN)
        if not plan.is_stateful:
            yield fine(rule, "It keeps no state.", query=plan.query)
        elif plan.conf.get(CHECKPOINT_FORMAT, "1") != "2":
            yield fine(rule, "Its state has checkpoint format 1.", query=plan.query)
        elif habit.executes_again:
            yield fine(rule, f"Its sink ({plan.sink.sink}) takes a batch again.", query=plan.query)
        elif habit is SinkReplaySemantics.UNKNOWN:
            what = f"Whether its sink ({plan.sink.sink}) skips a batch that it has is not recorded."
            yield unknown(rule, what, query=plan.query, remedy=_TAKE_AGAIN)
        else:
            is_file = habit is SinkReplaySemantics.FILE_LOG
            yield risk(
                rule,
                RiskLevel.MEDIUM if is_file else RiskLevel.HIGH,
                "A driver that dies between the sink's write and the commit leaves a checkpoint on which "
                "Spark fails at every start.",
                query=plan.query,
                evidence=f"{CHECKPOINT_FORMAT}=2 and a sink that skips a batch it has "
                f"({plan.sink.sink})",
                remedy=_PUT_BACK if is_file else _TAKE_AGAIN,
            )


def growth(facts: Facts) -> Iterator[Advice]:
    """Look for state that grows on and on."""
    rule = "state-growth"
    yield from _without_figures(rule, facts)
    for query, _ in _stateful(facts):
        known = [b for b in facts.batches(query.name) if b.state_rows is not None]
        if len(known) < GROWTH_BATCHES:
            yield unknown(
                rule,
                f"The history has {len(known)} batches with state; {GROWTH_BATCHES} are needed.",
                query=query.name,
            )
            continue
        yield _judge_growth(rule, query.name, known)


def _judge_growth(rule: str, query: str, batches: Sequence[BatchProgress]) -> Advice:
    rows = [batch.state_rows or 0 for batch in batches]
    quarter = len(rows) // 4
    first, last = rows[:quarter], rows[-quarter:]
    seen = (
        f"{min(first):,} to {max(first):,} rows in the first quarter of batches "
        f"{batches[0].batch_id} to {batches[-1].batch_id}, {min(last):,} to {max(last):,} in the "
        "last"
    )
    if max(last) < MATTERS or not _rises(rows):
        return fine(rule, f"State does not grow to any size ({seen}).", query=query)
    return risk(
        rule,
        RiskLevel.HIGH,
        "Its state has only grown over the whole history.",
        query=query,
        evidence=seen,
        remedy="Look at it again when the stream has run longer than its watermark delay plus its "
        "largest window. If it still grows: a watermark that stands still, or keys that never "
        "expire.",
    )


def _rises(rows: Sequence[int]) -> bool:
    # The last quarter lies wholly above the first: state that is filled and emptied in turn, window
    # by window, goes up and down within every quarter.
    cuts = [len(rows) * part // 4 for part in range(5)]
    quarters = [rows[begin:end] for begin, end in pairwise(cuts)]
    apart = min(quarters[3]) > max(quarters[0])
    middles = [median(quarter) for quarter in quarters]
    rising = all(after > before for before, after in pairwise(middles))
    return apart and rising and middles[-1] >= GROWTH * middles[0]


def _stateful(facts: Facts) -> Iterator[tuple[QueryStatus, BatchProgress]]:
    for query in facts.queries:
        latest = facts.latest(query)
        if latest is not None and latest.state_rows is not None:
            yield query, latest


def _without_figures(rule: str, facts: Facts) -> Iterator[Advice]:
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    for query in facts.queries:
        latest = facts.latest(query)
        if latest is None:
            yield unknown(rule, "It has not run a batch yet.", query=query.name)
        elif latest.state_rows is None:
            yield fine(rule, "It keeps no state.", query=query.name)
