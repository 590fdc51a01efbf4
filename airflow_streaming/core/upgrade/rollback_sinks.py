"""
What a sink does with a batch id that it sees for the second time.

Going back means that batch ids come again. Whether that is harmless is not Spark's to say but the
sink's: one that has a log of its ids passes over what it knows, one that writes by id replaces it,
and one that only appends has every row twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.core.checkpoint.places_apart import is_same_place
from airflow_streaming.core.plan.plan import QueryPlan, SinkPlan, SourcePlan
from airflow_streaming.core.uris import in_full

FILE: Final = "file"
KAFKA: Final = "kafka"


class SinkHabit(StrEnum):
    """What becomes of a batch whose id the sink has seen before."""

    FILE_LOG = "file_log"
    """Passed over, because ``_spark_metadata`` has it. We can put that log back in step."""
    OVERWRITES = "overwrites"
    """Replaces what was written under the same id."""
    REMEMBERS = "remembers"
    """Passed over, because the sink keeps ids of its own, e.g. in a table."""
    APPENDS = "appends"
    """Written once more."""
    NOTHING = "nothing"
    """It keeps nothing: a console, memory, or no sink at all."""
    UNKNOWN = "unknown"
    """Only its author can tell, and has not."""


HABITS: Final[Mapping[str, SinkHabit]] = {
    FILE: SinkHabit.FILE_LOG,
    KAFKA: SinkHabit.APPENDS,
    "console": SinkHabit.NOTHING,
    "memory": SinkHabit.NOTHING,
    "noop": SinkHabit.NOTHING,
    # Tables of a lake keep the id of the query and of its last batch, and pass over what they know.
    "table": SinkHabit.REMEMBERS,
    "delta": SinkHabit.REMEMBERS,
    "iceberg": SinkHabit.REMEMBERS,
    "hudi": SinkHabit.REMEMBERS,
}
"""By the sort of sink; every other one is unknown until its author says what it does."""

DECLARABLE: Final = frozenset(SinkHabit) - {SinkHabit.FILE_LOG, SinkHabit.UNKNOWN}
"""What an author may say of a sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFacts:
    """
    What a way back has to know of one query.

    :param query: Its name, which is its folder in a backup.
    :param sink: ``file``, ``kafka``, ``foreachbatch`` and so on, as in ``SinkPlan``.
    :param target: Path, topic or table; URI of the output folder of a file sink.
    :param cannot_reread: Why its sources cannot be read again; empty when they can.
    :param own_checkpoint: Location of the checkpoint when the script chose it itself, so that no
        deployment can move it; else empty.
    """

    query: str
    sink: str
    habit: SinkHabit
    target: str = ""
    is_stateful: bool = False
    cannot_reread: str = ""
    own_checkpoint: str = ""


def sink_facts_of(
    plans: Sequence[QueryPlan],
    habits: Mapping[str, SinkHabit] | None = None,
    *,
    checkpoint: str = "",
) -> tuple[SinkFacts, ...]:
    """
    Return what plans say of the sinks.

    :param habits: What the author has declared, by the query's name; it stands above what the sort
        of sink makes likely, but never above a file sink's log.
    :param checkpoint: URI under which the deployment gives its queries their checkpoints; without
        it no location counts as the script's own.
    :raises ValueError: a habit that nobody can declare, or of a query that there is not.
    """
    declared = dict(habits or {})
    unknown = sorted(set(declared) - {plan.query for plan in plans})
    odd = sorted(habit for habit in declared.values() if habit not in DECLARABLE)
    if unknown or odd:
        raise ValueError(
            f"A sink cannot be declared for query {unknown[0]!r}, which there is not."
            if unknown
            else f"A sink cannot be declared as {odd[0].value!r}; say one of "
            f"{', '.join(sorted(DECLARABLE))}."
        )
    return tuple(_facts(plan, declared.get(plan.query), checkpoint) for plan in plans)


def without_facts(queries: Collection[str], sinks: Sequence[SinkFacts]) -> list[str]:
    """
    Return the queries of which no facts say what they write.

    :param queries: Their names; a single one without a name is whatever the only facts are of.
    """
    if set(queries) == {""} and len(sinks) == 1:
        return []
    return sorted(set(queries) - {facts.query for facts in sinks})


def _facts(plan: QueryPlan, declared: SinkHabit | None, checkpoint: str) -> SinkFacts:
    likely = HABITS.get(plan.sink.sink, SinkHabit.UNKNOWN)
    is_log = likely is SinkHabit.FILE_LOG
    return SinkFacts(
        query=plan.query,
        sink=plan.sink.sink,
        habit=likely if is_log else declared or likely,
        target=_output(plan.sink) if is_log else plan.sink.target,
        is_stateful=plan.is_stateful,
        cannot_reread=" ".join(filter(None, map(_cannot_reread, plan.sources))),
        own_checkpoint=_own(plan, checkpoint),
    )


def _output(sink: SinkPlan) -> str:
    """Return a file sink's folder as a full URI; empty when it is relative."""
    target = in_full(sink.target)
    return target if target.startswith("/") or "://" in target else ""


def _own(plan: QueryPlan, checkpoint: str) -> str:
    chosen = in_full(plan.checkpoint)
    if not checkpoint or not chosen or ("://" not in chosen and not chosen.startswith("/")):
        return ""
    return "" if is_same_place(chosen, f"{checkpoint.rstrip('/')}/{plan.query}") else chosen


def _cannot_reread(source: SourcePlan) -> str:
    if source.source == "socket":
        return "A socket cannot be read again."
    cleaned = source.options.get("cleansource", "off").lower()
    if source.source == FILE and cleaned != "off":
        return (
            f"Its file source has cleanSource={cleaned}, so files that a batch has read may be gone "
            "when it is to be read again."
        )
    return ""
