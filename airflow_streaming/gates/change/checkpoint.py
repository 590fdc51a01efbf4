"""
A plan compared with the state and offsets of the checkpoint itself.

Spark compares types alone. The names tell a sum from a maximum, and one key from another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.checkpoints.read.report import (
    Checkpoint,
    Operator,
    SourcePosition,
    SourceType,
)
from airflow_streaming.gates.change import aggregation, joins, user_state
from airflow_streaming.gates.change.aggregation import buffers_of, function_of, without_optional
from airflow_streaming.gates.change.operators import (
    LONGER,
    NEEDED,
    SHORTER,
    STATEFUL,
    WATERMARK_REMOVED,
    has_effect,
    marks_text,
    needs_watermark,
    sorts_of,
    sorts_rule,
)
from airflow_streaming.gates.change.pair import offsets_file, plain_type, shown, signature, types_of
from airflow_streaming.gates.change.projection import kept_aggregates
from airflow_streaming.gates.change.sources import NAMING, NUMBER, TYPE
from airflow_streaming.gates.change.topics import partitions_of, topics_against
from airflow_streaming.gates.change.user_state import (
    ENCODING,
    by_name,
    compare_variables,
    variables_of,
)
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.stored import DEFAULT_STORE, StoreSchema
from airflow_streaming.model.durations import seconds_text
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.text import text_of, texts_of
from airflow_streaming.model.plan.tree import Tree
from airflow_streaming.model.spark.plan import (
    KAFKA,
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SourcePlan,
)

_ANY_NAME: Final = "_groupingexpression"
"""Spark's name for a computed grouping key."""
_SESSION: Final = frozenset({"session_window", "sessionStartTime"})
_ROWS: Final = "-keyWithIndexToValue"
_MATCHED: Final = "matched"
_TYPED: Final = frozenset({"sum", "max", "min", "first", "last"})
_Stores = Mapping[str, StoreSchema]

_SORTS: Final = {
    "stateStoreSave": OperatorKind.AGGREGATE,
    "dedupe": OperatorKind.DEDUPLICATE,
    "dedupeWithinWatermark": OperatorKind.DEDUPLICATE_WITHIN_WATERMARK,
    "symmetricHashJoin": OperatorKind.JOIN,
    "sessionWindowStateStoreSaveExec": OperatorKind.SESSION_WINDOW,
    "globalLimit": OperatorKind.LIMIT,
    "applyInPandasWithState": OperatorKind.GROUPS_WITH_STATE,
    "flatMapGroupsWithState": OperatorKind.GROUPS_WITH_STATE,
    "transformWithStateExec": OperatorKind.TRANSFORM_WITH_STATE,
    "transformWithStateInPandasExec": OperatorKind.TRANSFORM_WITH_STATE,
    "transformWithStateInPySparkExec": OperatorKind.TRANSFORM_WITH_STATE,
}

_FORMS: Final = {
    "kafka": SourceType.KAFKA,
    "file": SourceType.FILE,
    "rate": SourceType.NUMBER,
    "socket": SourceType.NUMBER,
    "rate-micro-batch": SourceType.RATE_MICRO_BATCH,
}

_MODE: Final = "outputMode"


def held_state(
    plan: QueryPlan, number: int, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield what of an operator's plan cannot be what its state was made by."""
    operator = plan.operators[number]
    if operator.sort is OperatorKind.TRANSFORM_WITH_STATE:
        yield from _held_variables(plan, number, checkpoint, schemas)
        return
    judge = _JUDGES.get(operator.sort)
    stores = {schema.store: schema for schema in schemas if schema.operator == number}
    if judge is not None and stores:
        yield from judge(plan, number, stores)


def held_operators(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield the stateful operators of a plan that cannot continue the checkpoint's operators."""
    if not checkpoint.operators and (checkpoint.is_stateful is None or not plan.operators):
        return
    stored = [sort_of(operator, schemas) for operator in checkpoint.operators]
    planned = sorts_of(plan.operators)
    known = [
        sort.value if sort else (planned[place] if place < len(planned) else "other")
        for place, sort in enumerate(stored)
    ]
    if known != planned:
        yield sorts_rule(known, planned).found(
            old=", ".join(known) or "none",
            new=", ".join(planned) or "none",
            evidence=_evidence(checkpoint),
        )
        return
    for number in range(len(planned)):
        yield from held_state(plan, number, checkpoint, schemas)


def sort_of(operator: Operator, schemas: Sequence[StoreSchema]) -> OperatorKind | None:
    """
    Return the kind of an operator of a checkpoint.

    Spark 3.5 and older record no names, so the columns of the state decide.
    """
    if operator.name is not None:
        return _SORTS.get(operator.name)
    if any(store.name.startswith(("left-", "right-")) for store in operator.stores):
        return OperatorKind.JOIN
    own = [schema for schema in schemas if schema.operator == operator.id]
    return _by_columns(own[0]) if own else None


def held_sources(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    """Yield the sources of a plan that cannot continue the checkpoint's sources."""
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


def held_watermarks(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield how a plan's watermarks differ from the delays that the state's columns carry."""
    if not has_effect(plan):
        return
    before = {each.delay_ms: schema.path for schema in schemas for each in schema.watermarks}
    after = {each.delay_ms for each in plan.watermarks}
    has_time = (checkpoint.watermark_ms or 0) > 0
    if not after and (before or has_time):
        rule = NEEDED if needs_watermark(plan) else WATERMARK_REMOVED
        yield rule.found(
            old=_delays(before), new="none", evidence=_first(before) or offsets_file(checkpoint)
        )
    elif before and after.isdisjoint(before):
        rule = LONGER if max(after) > max(before) else SHORTER
        yield rule.found(
            old=_delays(before), new=marks_text(plan.watermarks), evidence=_first(before)
        )


def held_output_mode(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    """Yield an output mode that differs from the mode in the metadata of an operator."""
    for operator in checkpoint.operators:
        kept_mode = str(operator.state.get(_MODE, "")).lower()
        if kept_mode and kept_mode != plan.output_mode:
            yield STATEFUL.found(
                old=kept_mode, new=plan.output_mode, evidence=f"state/{operator.id}/_metadata/v2"
            )


def _held_aggregate(plan: QueryPlan, number: int, stores: _Stores) -> Iterator[GateFinding]:
    operator, schema = plan.operators[number], stores.get(DEFAULT_STORE)
    if schema is None:
        return
    keys = [column for column in operator.keys if column.name not in _SESSION]
    stored = [column for column in schema.key if column.name not in _SESSION]
    if not _same_keys(stored, keys):
        yield aggregation.KEYS.found(old=shown(stored), new=shown(keys), evidence=schema.path)
    own = {column.name for column in stored} | _SESSION
    # Aggregations of the first format, and session windows, keep the keys with the values too.
    values = [column for column in schema.value if column.name not in own]
    yield from _held_values(plan, number, values, schema.path)


def _held_values(
    plan: QueryPlan, number: int, stored: Sequence[Column], path: str
) -> Iterator[GateFinding]:
    operator = plan.operators[number]
    kept = kept_aggregates(plan, number)
    expected = buffers_of(operator.values if kept is None else kept)
    if expected is None:
        return
    names = without_optional([column.name for column in stored])
    if kept is None:
        # The kept columns are unknown: each stored column must be among the expected ones.
        fits = all(names.count(name) <= expected.count(name) for name in names)
    else:
        fits = names == expected
    if not fits:
        yield aggregation.AGGREGATES.found(
            old=", ".join(names),
            new=f"{', '.join(expected)} (of {texts_of(kept or operator.values)})",
            evidence=path,
        )
    elif kept is not None:
        yield from _held_types(operator, kept, stored, path)


def _held_types(
    operator: OperatorPlan, kept: Sequence[Tree], stored: Sequence[Column], path: str
) -> Iterator[GateFinding]:
    types = dict(zip(operator.values, operator.value_types, strict=False))
    columns = [column for column in stored if column.name != "isEmpty"]
    for value in kept:
        own, columns = _taken(columns, len(buffers_of([value]) or ()))
        if _is_other_type(value, types.get(value, ""), own):
            yield aggregation.TYPES.found(
                old=shown(own[:1]), new=f"{text_of(value)} {types[value]}", evidence=path
            )


def _is_other_type(value: Tree, type_: str, own: Sequence[Column]) -> bool:
    # The type of the result is the type of the state only where the state holds the result.
    if not own or own[0].name not in _TYPED or function_of(value) != own[0].name:
        return False
    is_told = bool(type_) and not type_.startswith("of ")
    return is_told and plain_type(type_) != plain_type(own[0].type)


def _taken(columns: Sequence[Column], count: int) -> tuple[list[Column], list[Column]]:
    return list(columns[:count]), list(columns[count:])


def _held_deduplication(plan: QueryPlan, number: int, stores: _Stores) -> Iterator[GateFinding]:
    keys, schema = plan.operators[number].keys, stores.get(DEFAULT_STORE)
    if schema is None or signature(keys) == signature(schema.key):
        return
    is_order = sorted(signature(keys)) == sorted(signature(schema.key))
    rule = joins.ORDER if is_order else joins.COLUMNS
    yield rule.found(old=shown(schema.key), new=shown(keys), evidence=schema.path)


def _held_join(plan: QueryPlan, number: int, stores: _Stores) -> Iterator[GateFinding]:
    operator = plan.operators[number]
    for place, (side, columns) in enumerate((("left", operator.left), ("right", operator.right))):
        schema = stores.get(side + _ROWS)
        if schema is None:
            continue
        stored = [column for column in schema.value if column.name != _MATCHED]
        kept = joins.kept(plan, number, columns, place)
        if not set(signature(stored)) <= set(signature(columns if kept is None else kept)):
            yield joins.SCHEMA.found(
                f"The {side} side keeps other columns. {joins.SCHEMA.sentence}",
                old=shown(stored),
                new=shown(columns if kept is None else kept),
                evidence=schema.path,
            )
    yield from _held_join_keys(operator, stores.get("left" + _ROWS))


def _held_join_keys(operator: OperatorPlan, schema: StoreSchema | None) -> Iterator[GateFinding]:
    if schema is None or len(operator.keys) != len(operator.key_expressions):
        return
    stored = [column for column in schema.key if column.name != "index"]
    if sorted(types_of(stored)) != sorted(types_of(operator.keys)):
        yield joins.KEYS.found(old=shown(stored), new=shown(operator.keys), evidence=schema.path)


def _held_groups(plan: QueryPlan, number: int, stores: _Stores) -> Iterator[GateFinding]:
    operator, schema = plan.operators[number], stores.get(DEFAULT_STORE)
    if schema is None:
        return
    if not _same_keys(schema.key, operator.keys):
        yield user_state.KEYS.found(
            old=shown(schema.key), new=shown(operator.keys), evidence=schema.path
        )
    has_timeout = any(column.name == "timeoutTimestamp" for column in schema.value)
    wants = operator.timeout.lower().replace(" ", "") not in ("", "notimeout")
    if operator.timeout and has_timeout != wants:
        yield user_state.TIMEOUT.found(
            old="a timeout" if has_timeout else "no timeout",
            new=operator.timeout,
            evidence=schema.path,
        )


_JUDGES: Final[
    Mapping[OperatorKind, Callable[[QueryPlan, int, _Stores], Iterator[GateFinding]]]
] = {
    OperatorKind.AGGREGATE: _held_aggregate,
    OperatorKind.SESSION_WINDOW: _held_aggregate,
    OperatorKind.DEDUPLICATE: _held_deduplication,
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: _held_deduplication,
    OperatorKind.JOIN: _held_join,
    OperatorKind.GROUPS_WITH_STATE: _held_groups,
}


def _held_variables(
    plan: QueryPlan, number: int, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    operator, evidence = plan.operators[number], f"state/{number}/_metadata/v2"
    state = next((each.state for each in checkpoint.operators if each.id == number), {})
    mode = str(state.get("timeMode", ""))
    if mode and operator.time_mode and mode.lower() != operator.time_mode.lower():
        yield user_state.TIME_MODE.found(old=mode, new=operator.time_mode, evidence=evidence)
    after = by_name(operator.variables)
    if after:
        yield from compare_variables(
            variables_of(checkpoint, number, schemas),
            after,
            encoding=checkpoint.conf.get(ENCODING, ""),
            evidence=evidence,
        )


def _same_keys(stored: Sequence[Column], planned: Sequence[Column]) -> bool:
    if len(stored) != len(planned):
        return False
    return all(
        ("?" in (now.type, was.type) or plain_type(was.type) == plain_type(now.type))
        and (was.name.startswith(_ANY_NAME) or was.name == now.name)
        for was, now in zip(stored, planned, strict=True)
    )


def _by_columns(schema: StoreSchema) -> OperatorKind:
    keys = [column.name for column in schema.key]
    values = [column.name for column in schema.value]
    if values == ["__dummy__"]:
        return OperatorKind.DEDUPLICATE
    if values == ["expiresAtMicros"]:
        return OperatorKind.DEDUPLICATE_WITHIN_WATERMARK
    if "sessionStartTime" in keys:
        return OperatorKind.SESSION_WINDOW
    if "groupState" in values:
        return OperatorKind.GROUPS_WITH_STATE
    if (keys, values) == (["key"], ["value"]):
        return OperatorKind.LIMIT
    return OperatorKind.AGGREGATE


def _evidence(checkpoint: Checkpoint) -> str:
    found = (f"state/{o.id}/_metadata" if o.name else f"state/{o.id}" for o in checkpoint.operators)
    return ", ".join(found) or "no folder state"


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
    held = partitions_of(position)
    if held is None:
        return
    for rule in topics_against(held, source):
        yield rule.found(old=", ".join(sorted(held)), new=", ".join(source.paths), evidence=file)


def _delays(before: dict[int, str]) -> str:
    return ", ".join(seconds_text(delay / 1000) for delay in sorted(before)) or "a watermark"


def _first(before: dict[int, str]) -> str:
    return next(iter(before.values()), "")
