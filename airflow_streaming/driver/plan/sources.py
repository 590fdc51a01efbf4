"""The streaming sources of a plan, in the order in which Spark numbers them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_streaming.driver.plan.nodes import Node
from airflow_streaming.model.plan.schema import Column, type_name
from airflow_streaming.model.spark.plan import SourcePlan, SourceReplay, replay_of
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import mask_password

_OLD: Final = "StreamingRelation"
SOURCES: Final = frozenset({_OLD, "StreamingRelationV2"})
_FIELD, _PAIR = "\x1e", " -> "
_FILE: Final = "FileSource["
_FIXED_SCHEMAS: Final = frozenset({"text", "binaryfile"})
TOPICS: Final = ("subscribe", "subscribepattern", "assign")


def sources_of(tree: Node, plan: Any, notes: list[str]) -> tuple[SourcePlan, ...]:
    """
    Return the sources of a plan.

    :param plan: The plan in the JVM; its leaves have details that the tree lacks.
    :param notes: Gets a sentence for each unreadable detail.
    """
    leaves = [node for node in tree.walk() if not node.children]
    jvm: Any = plan.collectLeaves()
    found = []
    for place, leaf in enumerate(leaves):
        if leaf.name not in SOURCES:
            continue
        try:
            found.append(_source(leaf, jvm.apply(place)))
        except Exception as err:  # noqa: BLE001 - another Spark release may use other names
            kind = type(err).__name__
            notes.append(f"Source {len(found)} could not be read ({kind}); only its columns are.")
            found.append(SourcePlan(source="unknown", schema=output_of(leaf)))
    return tuple(found)


def formats_and_options(plan: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Yield the format and the options of each source, secrets included.

    :param plan: The analyzed plan in the JVM. It costs a few calls a source, little enough for every start.
    """
    leaves = plan.collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        name = str(leaf.getClass().getSimpleName())
        if name == _OLD:
            source = leaf.dataSource()
            yield str(source.className()).lower(), _options_of_v1(source)
        elif name in SOURCES:
            yield str(leaf.sourceName()).lower(), _options_of_v2(leaf)


def queues_of(plan: Any) -> Iterator[str]:
    """Yield the sources of a plan that have no positions."""
    for source, given in formats_and_options(plan):
        options = {key.lower(): value for key, value in given.items()}
        if replay_of(SourcePlan(source=source, options=options)) is SourceReplay.QUEUE:
            yield source


def output_of(leaf: Node) -> tuple[Column, ...]:
    return tuple(map(column_of, leaf.expressions("output")))


def column_of(attribute: Node) -> Column:
    """Return a column as the plan refers to it."""
    return Column(
        name=str(attribute.fields.get("name", "?")),
        type=type_name(attribute.fields.get("dataType")),
        nullable=attribute.fields.get("nullable") is not False,
    )


def places_of(source: str, options: Mapping[str, str]) -> list[str]:
    """Return where a source reads: its path, or the topics of Kafka and of sources that take its options."""
    topics = [f"{key} {options[key]}" for key in TOPICS if options.get(key)]
    path = options.get("path") if source != "kafka" else None
    return [*topics, path] if path else topics


def _source(leaf: Node, relation: Any) -> SourcePlan:
    is_old = leaf.name == _OLD
    given = _options_of_v1(relation.dataSource()) if is_old else _options_of_v2(relation)
    source, form = _called(leaf, relation, is_old=is_old)
    options = {key.lower(): value for key, value in given.items()}
    paths = places_of(source, options)
    if not paths and is_old:
        paths = _split(relation.dataSource().paths())
    return SourcePlan(
        source=source,
        name=_given_name(leaf, relation),
        format=form,
        paths=tuple(map(mask_password, paths)),
        schema=output_of(leaf),
        options={k: v for k, v in redact(options).items() if k not in ("path", *TOPICS)},
        inferred=source == "file"
        and form not in _FIXED_SCHEMAS
        and bool(relation.dataSource().userSpecifiedSchema().isEmpty()),
    )


def _called(leaf: Node, relation: Any, *, is_old: bool) -> tuple[str, str]:
    if not is_old:
        return str(relation.sourceName()).lower(), ""
    name = str(relation.dataSource().className())
    if str(leaf.fields.get("sourceName", "")).startswith(_FILE):
        return "file", name.lower()
    return (name if "." in name else name.lower()), ""


def _options_of_v1(source: Any) -> dict[str, str]:
    return dict(
        pair.split(_PAIR, 1)
        for pair in str(source.options().mkString(_FIELD)).split(_FIELD)
        if pair
    )


def _options_of_v2(relation: Any) -> dict[str, str]:
    java = relation.extraOptions().asCaseSensitiveMap()
    return {str(key): str(java[key]) for key in java}


def _split(sequence: Any) -> list[str]:
    return [part for part in str(sequence.mkString(_FIELD)).split(_FIELD) if part]


def _given_name(leaf: Node, relation: Any) -> str:
    name = leaf.fields.get("sourceIdentifyingName")
    if not isinstance(name, Mapping):
        return ""
    if name.get("name"):
        return str(name["name"])
    if str(name.get("object", "")).endswith("Unassigned$"):
        return ""
    with contextlib.suppress(Exception):
        return str(relation.sourceIdentifyingName().name())
    return ""
