"""
Sources: how many there are, of which type, in which order, and what they read.

An offset log without names knows its sources by their place in the plan alone. With names (Spark
4.2 and newer, where the checkpoint was begun with them) sources may come, go and change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.source_options import judge_options
from airflow_streaming.core.compatibility.change.source_schema import judge_schema
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import SourcePlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics after changes"
_ANEW: Final = "Keep the sources, or start with a new checkpoint (blue-green)."

NUMBER: Final = Rule(
    name="source.number",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The number of sources without names must not change.",
    source=f"{_GUIDE}; measured: 'There are [1] sources in the checkpoint offsets and now [2]'",
    remedy=f"{_ANEW} From Spark 4.2 a checkpoint begun with named sources may gain and lose them.",
)
TYPE: Final = Rule(
    name="source.type",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A source must stay of its type: the offsets of one mean nothing to another.",
    source=f"{_GUIDE}; measured: file to rate fails on the offset's JSON",
    remedy=_ANEW,
)
ORDER: Final = Rule(
    name="source.order",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Sources without names must keep their order: each takes the offset at its place.",
    source="measured: two swapped file sources start, and each goes on at the other's offset",
    remedy="Put the sources back into the order they had.",
)
NAMED: Final = Rule(
    name="source.named_set",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Named sources may be added and removed: a new one begins at its own start, of a "
    "removed one nothing more is read.",
    source="SPARK-55795; measured on 4.3",
)
NAMED_ORDER: Final = Rule(
    name="source.named_order",
    severity=GateDecision.ALLOWED,
    sentence="Named sources may change places.",
    source="SPARK-55795; measured on 4.3",
)
NAMING: Final = Rule(
    name="source.naming",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A checkpoint goes on with names for its sources, or without, as it was begun.",
    source="measured on 4.3: CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; SPARK-61311",
    remedy="Take the names out again (or put them back), or start with a new checkpoint.",
)
PATHS: Final = Rule(
    name="source.paths",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A source must go on reading the same folders: the files seen so far are not those "
    "of another.",
    source=f"{_GUIDE}; measured: the only obstacle is 'Wrong basePath', which is no check",
    remedy="Read the old folder, or start with a new checkpoint (blue-green).",
)
TOPICS: Final = Rule(
    name="source.topics",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A source must stay subscribed to the same topics.",
    source=_GUIDE,
    remedy="Keep the subscription; read another topic in a query of its own, with a checkpoint of "
    "its own.",
)
FORMAT: Final = Rule(
    name="source.format",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A file source must go on with the same format of files.",
    source="measured: json to text starts, and reads other rows",
    remedy=_ANEW,
)

RULES: Final = (NUMBER, TYPE, ORDER, NAMED, NAMED_ORDER, NAMING, PATHS, TOPICS, FORMAT)

KAFKA: Final = "kafka"


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
        )
        return
    if _is_reordered(old, new):
        yield ORDER.found(old=_listed(old), new=_listed(new), evidence=pair.shown_by_plan)
        return
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        yield from _judge_one(pair, was, now, f"Source {number}")


def identity(source: SourcePlan) -> tuple[str, str, tuple[str, ...]]:
    """Return what makes a source this one: type, format and what it reads."""
    return source.source, source.format, reads(source)


def reads(source: SourcePlan) -> tuple[str, ...]:
    """Return what a source reads, in one spelling and order."""
    if source.source != KAFKA:
        return tuple(sorted(map(place, source.paths)))
    found = []
    for told in source.paths:
        way, _, topics = told.rpartition(" ")
        # Only a list of topics has no order; a pattern and an assignment are texts.
        found += [told] if way not in ("", "subscribe") else topics.split(",")
    return tuple(sorted(topic.strip() for topic in found))


def place(path: str) -> str:
    """Return a path in one spelling: ``file:///in/`` and ``/in`` are the same."""
    plain = path.removeprefix("file:")
    if plain != path:
        plain = "/" + plain.lstrip("/")
    return plain.rstrip("/") or plain


def _judge_named(pair: Pair) -> Iterator[GateFinding]:
    old = {source.name: source for source in pair.old.sources}
    new = {source.name: source for source in pair.new.sources}
    if old.keys() != new.keys():
        yield NAMED.found(
            old=_names(pair.old.sources),
            new=_names(pair.new.sources),
            evidence=pair.shown_by_offsets,
        )
    elif list(old) != list(new):
        yield NAMED_ORDER.found(
            old=_names(pair.old.sources),
            new=_names(pair.new.sources),
            evidence=pair.shown_by_offsets,
        )
    yield from _judge_kept(pair, old, new)


def _judge_kept(
    pair: Pair, old: Mapping[str, SourcePlan], new: Mapping[str, SourcePlan]
) -> Iterator[GateFinding]:
    for name, was in old.items():
        if name in new:
            yield from _judge_one(pair, was, new[name], f"Source {name!r}")


def _judge_one(pair: Pair, old: SourcePlan, new: SourcePlan, who: str) -> Iterator[GateFinding]:
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
            evidence=pair.shown_by_plan,
        )
    if identity(old)[2] != identity(new)[2]:
        rule = TOPICS if old.source == KAFKA else PATHS
        yield rule.found(
            f"{who} reads {', '.join(new.paths)} instead of {', '.join(old.paths)}.",
            old=", ".join(old.paths),
            new=", ".join(new.paths),
            evidence=pair.shown_by_plan,
        )
    yield from judge_options(old, new, who, pair.shown_by_plan)
    yield from judge_schema(old, new, who, pair.shown_by_plan)


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
