"""
The columns of an operator's state held against its plan, by name and type.

Spark compares types alone. The names tell a sum from a maximum, and one key from another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change import (
    aggregation,
    deduplication,
    joins,
    user_state,
)
from airflow_streaming.core.compatibility.change.buffers import buffers_of, without_optional
from airflow_streaming.core.compatibility.change.columns import (
    plain_type,
    shown,
    signature,
    types_of,
)
from airflow_streaming.core.compatibility.change.pruning import kept_aggregates
from airflow_streaming.core.compatibility.change.variables import (
    ENCODING,
    compare_variables,
    variables_in,
    variables_of,
)
from airflow_streaming.core.compatibility.finding import GateFinding
from airflow_streaming.core.compatibility.stored import DEFAULT_STORE, StoreSchema
from airflow_streaming.core.plan.plan import Column, OperatorPlan, OperatorSort, QueryPlan

_ANY_NAME: Final = "_groupingexpression"
"""What Spark calls a grouping key that is computed."""
_SESSION: Final = frozenset({"session_window", "sessionStartTime"})
_ROWS: Final = "-keyWithIndexToValue"
_MATCHED: Final = "matched"
_TYPED: Final = frozenset({"sum", "max", "min", "first", "last"})

_Stores = Mapping[str, StoreSchema]


def held_state(
    plan: QueryPlan, number: int, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield what of an operator's plan cannot be what its state was made by."""
    operator = plan.operators[number]
    if operator.sort is OperatorSort.TRANSFORM_WITH_STATE:
        yield from _held_variables(plan, number, checkpoint)
        return
    judge = _JUDGES.get(operator.sort)
    stores = {schema.store: schema for schema in schemas if schema.operator == number}
    if judge is not None and stores:
        yield from judge(plan, number, stores)


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
        # Which of them are kept could not be followed: all that is stored must be among them.
        fits = all(names.count(name) <= expected.count(name) for name in names)
    else:
        fits = names == expected
    if not fits:
        yield aggregation.AGGREGATES.found(
            old=", ".join(names),
            new=f"{', '.join(expected)} (of {', '.join(kept or operator.values)})",
            evidence=path,
        )
    elif kept is not None:
        yield from _held_types(operator, kept, stored, path)


def _held_types(
    operator: OperatorPlan, kept: Sequence[str], stored: Sequence[Column], path: str
) -> Iterator[GateFinding]:
    types = dict(zip(operator.values, operator.value_types, strict=False))
    columns = [column for column in stored if column.name != "isEmpty"]
    for value in kept:
        own, columns = _taken(columns, len(buffers_of([value]) or ()))
        if _is_other_type(value, types.get(value, ""), own):
            yield aggregation.TYPES.found(
                old=shown(own[:1]), new=f"{value} {types[value]}", evidence=path
            )


def _is_other_type(value: str, type_: str, own: Sequence[Column]) -> bool:
    # Only where the result is what is kept does its type tell that of the state.
    if not own or own[0].name not in _TYPED or value.split("(")[0] != own[0].name:
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
    rule = deduplication.ORDER if is_order else deduplication.COLUMNS
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


def _held_variables(plan: QueryPlan, number: int, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    operator, evidence = plan.operators[number], f"state/{number}/_metadata/v2"
    told = next((each.state for each in checkpoint.operators if each.id == number), {})
    mode = str(told.get("timeMode", ""))
    if mode and operator.time_mode and mode.lower() != operator.time_mode.lower():
        yield user_state.TIME_MODE.found(old=mode, new=operator.time_mode, evidence=evidence)
    after = variables_in(operator.state_schema)
    if after:
        yield from compare_variables(
            variables_of(checkpoint, number),
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


_JUDGES: Final[
    Mapping[OperatorSort, Callable[[QueryPlan, int, _Stores], Iterator[GateFinding]]]
] = {
    OperatorSort.AGGREGATE: _held_aggregate,
    OperatorSort.SESSION_WINDOW: _held_aggregate,
    OperatorSort.DEDUPLICATE: _held_deduplication,
    OperatorSort.DEDUPLICATE_WITHIN_WATERMARK: _held_deduplication,
    OperatorSort.JOIN: _held_join,
    OperatorSort.GROUPS_WITH_STATE: _held_groups,
}
