"""
Sources: number, type, order and schema.

The effect on operators and the sink is judged in their modules.

Remarks are about the sources of the new plan alone: a comparison of two plans cannot show that a restart may read
other rows or columns than the gate has judged. Only a source without positions is refused.

An offset log without names knows its sources by their place in the plan alone. With names (Spark
4.2 and newer, where the checkpoint was begun with them) sources may come, go and change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.gates.change.faulty_records import reads_faulty_records_otherwise
from airflow_streaming.gates.change.pair import (
    ColumnChange,
    Pair,
    column_change,
    is_wider,
    shown,
    types_of,
)
from airflow_streaming.gates.change.source_options import judge_options
from airflow_streaming.gates.change.topics import judge_topics
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.plan import KAFKA, QueryPlan, SourcePlan, SourceReplay, replay_of

ADDED: Final = rule_named("source.column_added")
REMOVED: Final = rule_named("source.column_removed")
WIDENED: Final = rule_named("source.column_widened")
RETYPED: Final = rule_named("source.column_type")
RENAMED: Final = rule_named("source.column_renamed")
BY_PLACE: Final = rule_named("source.column_places")
FAULTY: Final = rule_named("source.faulty_records")
GIVEN: Final = rule_named("source.schema_given")
LEFT_OUT: Final = rule_named("source.schema_left_out")
SOURCE_SCHEMA_RULES: Final = (
    FAULTY,
    ADDED,
    REMOVED,
    WIDENED,
    RETYPED,
    RENAMED,
    BY_PLACE,
    GIVEN,
    LEFT_OUT,
)
_MATTER_BY_PLACE: Final = "csv"

NUMBER: Final = rule_named("source.number")
TYPE: Final = rule_named("source.type")
ORDER: Final = rule_named("source.order")
NAMED: Final = rule_named("source.named_set")
NAMED_ORDER: Final = rule_named("source.named_order")
NAMING: Final = rule_named("source.naming")
PATHS: Final = rule_named("source.paths")
SAME_FILES: Final = rule_named("source.same_files")
FORMAT: Final = rule_named("source.format")
RULES: Final = (NUMBER, TYPE, ORDER, NAMED, NAMED_ORDER, NAMING, PATHS, SAME_FILES, FORMAT)

NOT_REPLAYABLE: Final = rule_named("source.not_replayable")
REPLAY_UNKNOWN: Final = rule_named("source.replay_unknown")
QUEUE: Final = rule_named("source.queue")
INFERRED: Final = rule_named("source.inferred_schema")
COULD_BE_NAMED: Final = rule_named("source.could_be_named")
SOURCE_REMARK_RULES: Final = (COULD_BE_NAMED, NOT_REPLAYABLE, REPLAY_UNKNOWN, QUEUE, INFERRED)
_FIRST_NAMES: Final = (4, 2)
"""The release from which sources can have names."""
_NAME_THEM: Final = (
    "Keep the sources, or start with a new checkpoint (blue-green). Let that change only name the sources, with "
    "readStream.name(...) and spark.sql.streaming.queryEvolution.enableSourceEvolution: they may come, go and change "
    "places in later changes."
)
_REMARKS: Final = {
    SourceReplay.CANNOT: NOT_REPLAYABLE,
    SourceReplay.UNKNOWN: REPLAY_UNKNOWN,
    SourceReplay.QUEUE: QUEUE,
}


def judge_schema(
    pair: Pair, old: SourcePlan, new: SourcePlan, who: str, evidence: str, at: str
) -> Iterator[GateFinding]:
    """Compare the columns that a source gives, and who chooses them, at a place of the plan."""
    if old.inferred != new.inferred:
        rule = LEFT_OUT if new.inferred else GIVEN
        yield rule.found(
            f"{who}: {rule.sentence}",
            old=_chosen_by(old),
            new=_chosen_by(new),
            evidence=f"{at}.inferred in {pair.shown_by_plan}",
            about=(f"{at}.inferred",),
        )
    change = column_change(old.schema, new.schema)
    if not change or _is_headers(new, change):
        return
    moved = {column.name for column in (*change.added, *change.removed)}
    if moved and reads_faulty_records_otherwise(pair, old, new, moved):
        yield FAULTY.found(
            f"{who}: {FAULTY.sentence}",
            old=shown(change.removed),
            new=shown(change.added),
            evidence=evidence,
        )
    if old.format == _MATTER_BY_PLACE and not _is_kept(old, new):
        rule = RENAMED if _is_renamed(old, new) else BY_PLACE
        yield rule.found(
            f"{who}: {rule.sentence}",
            old=shown(old.schema),
            new=shown(new.schema),
            evidence=evidence,
            about=(f"{at}.schema", f"{at}.nullable"),
        )
        return
    for finding in _judge_columns(change, who, evidence):
        yield replace(finding, about=(f"{at}.schema", f"{at}.nullable"))


def judge_sources(pair: Pair) -> Iterator[GateFinding]:
    """Compare the sources of both plans."""
    old, new = pair.old.sources, pair.new.sources
    if _named(old) != _named(new):
        yield NAMING.found(old=_names(old), new=_names(new), evidence=pair.shown_by_offsets)
        return
    if _named(old) and old:
        yield from _judge_named(pair)
        return
    if len(old) != len(new):
        yield NUMBER.found(
            f"The query has {len(new)} sources instead of {len(old)}.",
            old=_listed(old),
            new=_listed(new),
            evidence=pair.shown_by_offsets,
            remedy=_naming(pair.new),
        )
        return
    if _is_reordered(old, new):
        yield ORDER.found(
            old=_listed(old),
            new=_listed(new),
            evidence=pair.shown_at("sources"),
            remedy=_naming(pair.new),
        )
        return
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        yield from _judge_one(pair, was, now, f"Source {number}", str(number))


def identity(source: SourcePlan) -> tuple[str, str, tuple[str, ...]]:
    """Return the identity of a source: type, format and places."""
    return source.source, source.format, reads(source)


def reads(source: SourcePlan) -> tuple[str, ...]:
    """Return the places of a source in one spelling and order."""
    if source.source != KAFKA:
        return tuple(sorted(map(place, source.paths)))
    found = []
    for path in source.paths:
        way, _, topics = path.rpartition(" ")
        # Only a list of topics has no order; a pattern and an assignment are texts.
        found += [path] if way not in ("", "subscribe") else topics.split(",")
    return tuple(sorted(topic.strip() for topic in found))


def place(path: str) -> str:
    """Return a path in one spelling: ``file:///in/`` and ``/in`` are the same."""
    plain = path.removeprefix("file:")
    if plain != path:
        plain = "/" + plain.lstrip("/")
    return plain.rstrip("/") or plain


def judge_source_remarks(plan: QueryPlan) -> Iterator[GateFinding]:
    """Yield a remark for each source of the new plan that a restart may read otherwise."""
    for number, source in enumerate(plan.sources):
        rule = _REMARKS.get(replay_of(source))
        if rule is not None:
            yield rule.found(
                f"Source {number} ({source.source}): {rule.sentence}",
                new=source.source,
                evidence=f"sources[{number}] in the new plan",
            )
        if source.inferred:
            yield INFERRED.found(
                f"Source {number} ({', '.join(source.paths)}): {INFERRED.sentence}",
                new=shown(source.schema),
                evidence=f"sources[{number}] in the new plan",
            )


def offer_names(plan: QueryPlan) -> Iterator[GateFinding]:
    """Yield that the sources of a query without a batch could have names, which it can never get later."""
    if len(plan.sources) > 1 and _naming(plan) and not _named(plan.sources):
        yield COULD_BE_NAMED.found(new=_listed(plan.sources), evidence="sources in the new plan")


def _naming(plan: QueryPlan) -> str:
    """Return the advice to name the sources; empty for a Spark that cannot."""
    return _NAME_THEM if parse_spark_version(plan.spark)[:2] >= _FIRST_NAMES else ""


def _chosen_by(source: SourcePlan) -> str:
    return "inferred by Spark" if source.inferred else "given by the script"


def _is_headers(source: SourcePlan, change: ColumnChange) -> bool:
    """Tell whether only Kafka's column of headers comes or goes, which the option of the source explains."""
    moved = [column.name for column in (*change.added, *change.removed)]
    return source.source == KAFKA and moved == ["headers"] and not change.retyped


def _judge_columns(change: ColumnChange, who: str, evidence: str) -> Iterator[GateFinding]:
    if change.added:
        yield ADDED.found(
            f"{who}: {ADDED.sentence}", old="none", new=shown(change.added), evidence=evidence
        )
    if change.removed:
        yield REMOVED.found(
            f"{who}: {REMOVED.sentence}", old=shown(change.removed), new="none", evidence=evidence
        )
    for was, now in change.retyped:
        yield _retyped(was, now).found(
            f"{who}: column {was.name} is {now.type} instead of {was.type}.",
            old=was.type,
            new=now.type,
            evidence=evidence,
        )


def _retyped(was: Column, now: Column) -> Rule:
    return WIDENED if is_wider(was.type, now.type) else RETYPED


def _is_kept(old: SourcePlan, new: SourcePlan) -> bool:
    before = [column.name for column in old.schema]
    return [column.name for column in new.schema][: len(before)] == before


def _is_renamed(old: SourcePlan, new: SourcePlan) -> bool:
    if len(new.schema) < len(old.schema):
        return False
    before = {column.name for column in old.schema}
    pairs = list(zip(old.schema, new.schema, strict=False))
    return types_of(was for was, _ in pairs) == types_of(now for _, now in pairs) and all(
        was.name == now.name or now.name not in before for was, now in pairs
    )


def _judge_named(pair: Pair) -> Iterator[GateFinding]:
    old = {source.name: source for source in pair.old.sources}
    new = {source.name: source for source in pair.new.sources}
    if old.keys() != new.keys():
        yield NAMED.found(
            old=_names(pair.old.sources),
            new=_names(pair.new.sources),
            evidence=pair.shown_by_offsets,
            about=("sources", *(f"sources[{name}].*" for name in old.keys() ^ new.keys())),
        )
    elif list(old) != list(new):
        yield NAMED_ORDER.found(
            old=_names(pair.old.sources),
            new=_names(pair.new.sources),
            evidence=pair.shown_by_offsets,
            about=("sources",),
        )
    yield from _judge_kept(pair, old, new)


def _judge_kept(
    pair: Pair, old: Mapping[str, SourcePlan], new: Mapping[str, SourcePlan]
) -> Iterator[GateFinding]:
    for name, was in old.items():
        if name in new:
            yield from _judge_one(pair, was, new[name], f"Source {name!r}", name)


def _judge_one(
    pair: Pair, old: SourcePlan, new: SourcePlan, who: str, key: str
) -> Iterator[GateFinding]:
    at = f"sources[{key}]"
    if old.source != new.source:
        yield TYPE.found(
            f"{who} is {new.source} instead of {old.source}.",
            old=old.source,
            new=new.source,
            evidence=pair.shown_by_offsets,
        )
        return
    if old.format != new.format:
        yield FORMAT.found(
            f"{who} reads {new.format} files instead of {old.format}.",
            old=old.format,
            new=new.format,
            evidence=pair.shown_at(f"{at}.format"),
        )
    if identity(old)[2] != identity(new)[2]:
        judge = judge_topics if old.source == KAFKA else _judge_paths
        yield from judge(pair, old, new, who, key)
    yield from judge_options(pair, old, new, who, at)
    yield from judge_schema(pair, old, new, who, f"{at}.schema in {pair.shown_by_plan}", at)


def _judge_paths(
    pair: Pair, old: SourcePlan, new: SourcePlan, who: str, key: str
) -> Iterator[GateFinding]:
    is_same = (identity(old)[2], identity(new)[2]) in pair.same_files
    at = f"sources[{key}].paths"
    yield (SAME_FILES if is_same else PATHS).found(
        f"{who} reads {', '.join(new.paths)} instead of {', '.join(old.paths)}.",
        old=", ".join(old.paths),
        new=", ".join(new.paths),
        evidence="both paths listed" if is_same else f"{at} in {pair.shown_by_plan}",
        about=(at,) if is_same else (),
    )


def _is_reordered(old: Sequence[SourcePlan], new: Sequence[SourcePlan]) -> bool:
    before, after = list(map(identity, old)), list(map(identity, new))
    return before != after and sorted(before) == sorted(after)


def _named(sources: Sequence[SourcePlan]) -> bool:
    return any(source.name for source in sources)


def _names(sources: Sequence[SourcePlan]) -> str:
    return ", ".join(source.name or "(no name)" for source in sources)


def _listed(sources: Sequence[SourcePlan]) -> str:
    return "; ".join(
        " ".join(part for part in (source.source, source.format, *source.paths) if part)
        for source in sources
    )
