"""What a handover on one sink asks of a stream, query by query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.cutover.terms import StartWay
from airflow_streaming.core.cutover.ways import rules
from airflow_streaming.core.plan.plan import (
    OperatorPlan,
    OperatorSort,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.core.upgrade.rollback_sinks import FILE, SinkFacts, SinkHabit

FOREACH_BATCH: Final = "foreachbatch"

_WITHOUT_IDS: Final = frozenset({SinkHabit.APPENDS, SinkHabit.NOTHING})
_BY_CODE: Final = frozenset({OperatorSort.GROUPS_WITH_STATE, OperatorSort.TRANSFORM_WITH_STATE})
_INTERVAL: Final = re.compile(r"interval [^()]*", re.IGNORECASE)


def judge_handover(
    old: QueryPlan, new: QueryPlan, facts: SinkFacts | None, start: StartWay
) -> Iterator[GateFinding]:
    """Judge one query that is to go on in the other's sink."""
    if [*map(_place, old.sources)] != [*map(_place, new.sources)]:
        yield rules.SOURCES.found()
    yield from _sinks(old.sink, new.sink)
    if not (old.is_stateful or new.is_stateful):
        return
    yield from _state(old, new)
    yield from _sources(new, start)
    yield from _ids(new.sink, facts)


def _place(source: SourcePlan) -> tuple[str, str, str, tuple[str, ...]]:
    return (source.source, source.name, source.format, source.paths)


def _sinks(old: SinkPlan, new: SinkPlan) -> Iterator[GateFinding]:
    before, after = ((sink.sink, sink.format, sink.partitioned_by) for sink in (old, new))
    if before != after:
        yield rules.SINK.found(old=_sink_text(old), new=_sink_text(new))
    if old.schema != new.schema and old.schema and new.schema:
        yield rules.SINK_SCHEMA.found(old=_columns(old), new=_columns(new))


def _state(old: QueryPlan, new: QueryPlan) -> Iterator[GateFinding]:
    before, after = _opens(old), _opens(new)
    if before != after:
        differing = [one for one in before if before[one] != after[one]]
        yield rules.STATE_DIFFERS.found(
            f"{rules.STATE_DIFFERS.sentence} Here these differ: {', '.join(differing)}.",
            old="; ".join(f"{one}: {before[one]}" for one in differing),
            new="; ".join(f"{one}: {after[one]}" for one in differing),
        )
    if old.operators != new.operators or old.steps != new.steps:
        yield rules.OPEN_BY_NEW_CODE.found()
    sorts = {one.sort for one in new.operators}
    if OperatorSort.SESSION_WINDOW in sorts:
        yield rules.LATE_IN_SESSIONS.found()
    if sorts & _BY_CODE:
        yield rules.OWN_STATE.found()


def _opens(plan: QueryPlan) -> dict[str, str]:
    """Return what decides when a result is closed."""
    return {
        "state": ", ".join(one.sort.value for one in plan.operators) or "none",
        "windows and ranges": ", ".join(map(_extent, plan.operators)),
        "watermarks": ", ".join(sorted(f"{w.column} {w.delay_ms} ms" for w in plan.watermarks)),
        "output mode": plan.output_mode,
    }


def _extent(operator: OperatorPlan) -> str:
    ranges = _INTERVAL.findall(operator.condition)
    window = "/".join(f"{micros / 1e6:g} s" for micros in operator.window_us)
    return " ".join(filter(None, (window, operator.gap, *ranges))) or "-"


def _sources(new: QueryPlan, start: StartWay) -> Iterator[GateFinding]:
    for number, source in enumerate(new.sources):
        is_shared_rate = source.source.startswith("rate") and start is StartWay.CLONED
        if source.source not in {FILE, "kafka"} and not is_shared_rate:
            yield rules.INCOMPARABLE.found(new=f"source {number}: {source.source}")


def _ids(sink: SinkPlan, facts: SinkFacts | None) -> Iterator[GateFinding]:
    if sink.sink == FILE:
        yield rules.FILE_SINK.found(new=_sink_text(sink))
    elif sink.sink == FOREACH_BATCH:
        yield rules.IDS_SHIFTED.found()
    elif facts is None or facts.habit not in _WITHOUT_IDS:
        yield rules.IDS.found(new=_sink_text(sink))


def _sink_text(sink: SinkPlan) -> str:
    by = f" by {', '.join(sink.partitioned_by)}" if sink.partitioned_by else ""
    return " ".join(filter(None, (sink.sink, sink.format))) + by


def _columns(sink: SinkPlan) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in sink.schema)
