"""A plan's sources held against the offset log: their number, their names, the form of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint, SourcePosition, SourceType
from airflow_streaming.core.compatibility.change.pair import offsets_file
from airflow_streaming.core.compatibility.change.sources import (
    KAFKA,
    NAMING,
    NUMBER,
    TOPICS,
    TYPE,
    reads,
)
from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.plan.plan import QueryPlan, SourcePlan

_FORMS: Final = {
    "kafka": SourceType.KAFKA,
    "file": SourceType.FILE,
    "rate": SourceType.NUMBER,
    "socket": SourceType.NUMBER,
    "rate-micro-batch": SourceType.RATE_MICRO_BATCH,
}


def held_sources(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    """Yield what of a plan's sources cannot be those of the checkpoint."""
    positions, file = checkpoint.sources, offsets_file(checkpoint)
    if not positions:
        return
    is_named = not all(position.name.isdigit() for position in positions)
    if is_named != any(source.name for source in plan.sources):
        yield NAMING.found(
            old=", ".join(position.name for position in positions),
            new=", ".join(source.name or "(no name)" for source in plan.sources),
            evidence=file,
        )
    elif is_named:
        named = {position.name: position for position in positions}
        for source in plan.sources:
            if source.name in named:
                yield from _held(source, named[source.name], file)
    elif len(positions) != len(plan.sources):
        yield NUMBER.found(
            f"The checkpoint has offsets of {len(positions)} sources, the plan {len(plan.sources)} "
            "sources.",
            old=str(len(positions)),
            new=str(len(plan.sources)),
            evidence=file,
        )
    else:
        for source, position in zip(plan.sources, positions, strict=True):
            yield from _held(source, position, file)


def _held(source: SourcePlan, position: SourcePosition, file: str) -> Iterator[GateFinding]:
    form = _FORMS.get(source.source)
    if SourceType.NOT_STARTED in (position.source, form) or form is None:
        return
    if position.source is not form:
        yield TYPE.found(
            f"Source {position.name} has an offset of the form {position.source.value}; "
            f"{source.source} writes the form {form.value}.",
            old=position.source.value,
            new=source.source,
            evidence=file,
        )
    elif source.source == KAFKA:
        yield from _held_topics(source, position, file)


def _held_topics(source: SourcePlan, position: SourcePosition, file: str) -> Iterator[GateFinding]:
    # A pattern and an assignment are texts of their own, which no offset shows.
    is_list = all(told.startswith("subscribe ") for told in source.paths)
    if not is_list or not source.paths or not isinstance(position.offset, Mapping):
        return
    topics = sorted(position.offset)
    if topics != sorted(reads(source)):
        yield TOPICS.found(old=", ".join(topics), new=", ".join(reads(source)), evidence=file)
