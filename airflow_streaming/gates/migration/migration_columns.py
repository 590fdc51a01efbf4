"""
Columns of a migrated state: where each key and each aggregate buffer of the new operator comes from.

An aggregate continues only where the new plan has the same expression. Any other aggregate of the new plan
starts as if no row had been read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.gates.change.aggregation import buffers_of, function_of
from airflow_streaming.gates.change.pair import is_wider, plain_type
from airflow_streaming.gates.change.projection import kept_aggregates
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.jobs.migration import (
    Carry,
    Merge,
    Move,
    OperatorMigration,
    StateColumn,
)
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import Tree
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan

SPARK_NAMES: Final = {
    OperatorKind.AGGREGATE: "stateStoreSave",
    OperatorKind.DEDUPLICATE: "dedupe",
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: "dedupeWithinWatermark",
}
"""Operators whose state can be written; Spark's names of them."""
_ANY_NAME: Final = "_groupingexpression"
_IS_EMPTY: Final = "isEmpty"
_FLAG: Final = "valueSet"
_MERGES: Final = {
    "sum": Merge.SUM,
    "count": Merge.SUM,
    "min": Merge.MIN,
    "max": Merge.MAX,
    _IS_EMPTY: Merge.EVERY,
}
_ADDITIVE: Final = frozenset({"sum", "try_sum", "count", "avg", "mean", "min", "max"})
"""Aggregates whose buffers of several keys make the buffer of one key."""
_RESULT: Final = frozenset(
    {"sum", "try_sum", "min", "max", "first", "last", "first_value", "last_value"}
)
"""Aggregates whose first buffer has the type of the result."""
_MOMENTS: Final = frozenset({"n", "avg", "m2"})
_DECLARABLE: Final = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double"),
        *("string", "boolean", "date", "timestamp"),
    }
)
"""Types of which a user can write a literal."""
_WINDOWS: Final = ("window", "session_window", "time_window")


class NoMigration(Exception):
    """Why no migration exists, as a sentence."""


class OtherState(NoMigration):
    """The new state cannot be made of the old one; the operator can still start without state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """
    An operator of a plan.

    :param stored: Columns of its state in the checkpoint; of the old plan only.
    """

    plan: QueryPlan
    number: int
    stored: StoreSchema | None = None

    @property
    def operator(self) -> OperatorPlan:
        return self.plan.operators[self.number]

    @property
    def types(self) -> dict[Tree, str]:
        return dict(zip(self.operator.values, self.operator.value_types, strict=False))


def migrated(old: Side, new: Side) -> OperatorMigration:
    """
    Return how an operator takes over the state of an old one by its columns.

    :raises NoMigration: the columns cannot be carried.
    """
    sort = new.operator.sort
    if sort not in SPARK_NAMES or sort is not old.operator.sort:
        raise OtherState(f"the columns of a {sort.value} operator cannot be changed")
    key = _keys(old, new)
    gone = len(old.operator.keys) > len([column for column in key if column.source is not None])
    if sort is OperatorKind.AGGREGATE:
        value, dropped = _aggregates(old, new, is_merged=gone)
    else:
        value, dropped = _marks(old, is_merged=gone), ()
    if gone:
        _check_droppable(old, new)
    return OperatorMigration(
        operator=new.number,
        name=SPARK_NAMES[sort],
        carry=Carry.COLUMNS,
        source=old.number,
        key=key,
        value=value,
        dropped=dropped,
    )


def empty(new: Side, name: str | None = None) -> OperatorMigration:
    """
    Return an operator that starts without state.

    :param name: Spark's name of the same operator in the checkpoint.
    :raises NoMigration: its state is not known.
    """
    sort = new.operator.sort
    found = name or SPARK_NAMES.get(sort)
    if found is None:
        raise NoMigration(f"A new {sort.value} operator has no known empty state.")
    return OperatorMigration(
        operator=new.number, name=found, carry=Carry.EMPTY, time_mode=new.operator.time_mode
    )


def _added(column: Column, of: str, initial: str = "NULL") -> StateColumn:
    return StateColumn(name=column.name, type=column.type, move=Move.ADD, initial=initial, of=of)


def _keys(old: Side, new: Side) -> tuple[StateColumn, ...]:
    was, now = old.operator, new.operator
    stored = _stored(old).key
    if not len(was.keys) == len(was.key_expressions) == len(stored) or len(now.keys) != len(
        now.key_expressions
    ):
        raise NoMigration("The keys of the state are not the keys of the recorded plan.")
    for column, key in zip(stored, was.keys, strict=True):
        is_named = column.name == key.name or column.name.startswith(_ANY_NAME)
        if not is_named or plain_type(column.type) != plain_type(key.type):
            raise NoMigration("The keys of the state are not the keys of the recorded plan.")
    places = {expression: place for place, expression in enumerate(was.key_expressions)}
    if len(places) != len(was.keys):
        raise NoMigration("Two keys of the recorded plan are one expression.")
    found = []
    for place, (key, expression) in enumerate(zip(now.keys, now.key_expressions, strict=True)):
        source = places.get(expression)
        if source is None:
            found.append(_new_key(old, new, key, text_of(expression)))
            continue
        move = _key_move(stored[source], key, is_same_place=place == source)
        name = stored[source].name if stored[source].name.startswith(_ANY_NAME) else key.name
        found.append(
            StateColumn(name=name, type=key.type, move=move, source=source, of=text_of(expression))
        )
    return tuple(found)


def _new_key(old: Side, new: Side, key: Column, text: str) -> StateColumn:
    """Return an added key, whose value for the old groups a user must declare."""
    was, now = old.operator, new.operator
    is_kept = set(was.key_expressions) <= set(now.key_expressions)
    is_aggregate = now.sort is OperatorKind.AGGREGATE
    if not (is_aggregate and is_kept and was.ends == now.ends and _is_declarable(key.type)):
        raise OtherState(
            f"key {text} is new, and the old state does not tell its value for a group"
        )
    return StateColumn(name=key.name, type=key.type, move=Move.ADD, of=text)


def _is_declarable(type_: str) -> bool:
    return type_ in _DECLARABLE or type_.startswith("decimal")


def _key_move(stored: Column, key: Column, *, is_same_place: bool) -> Move:
    if plain_type(stored.type) != plain_type(key.type):
        if not is_wider(stored.type, key.type):
            raise OtherState(
                f"key {key.name} was {stored.type} and is {key.type}, which cannot hold every value"
            )
        return Move.WIDEN
    if not is_same_place:
        return Move.REORDER
    is_named = stored.name == key.name or stored.name.startswith(_ANY_NAME)
    return Move.KEEP if is_named else Move.RENAME


def _check_droppable(old: Side, new: Side) -> None:
    """Refuse to drop the key by which groups end: the state has lost the groups that have ended."""
    kept = set(new.operator.key_expressions)
    for expression in old.operator.key_expressions:
        if expression not in kept and getattr(expression, "op", "") in _WINDOWS:
            raise OtherState("a window is dropped from the keys, and the state lacks ended windows")
    if old.operator.ends and not new.operator.ends:
        raise OtherState("an event time is dropped from the keys, and the state lacks ended groups")


def _marks(old: Side, *, is_merged: bool) -> tuple[StateColumn, ...]:
    stored = _stored(old).value
    if len(stored) != 1:
        raise NoMigration("The state of a deduplication has more than one value column.")
    if is_merged and old.operator.sort is not OperatorKind.DEDUPLICATE:
        raise OtherState("the expiry times of several keys cannot become one")
    column = stored[0]
    move = Move.MERGE if is_merged else Move.KEEP
    return (StateColumn(name=column.name, type=column.type, move=move, source=0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buffer:
    """Columns of one aggregate in the old state, by their places."""

    places: tuple[int, ...]
    columns: tuple[Column, ...]


def _aggregates(
    old: Side, new: Side, *, is_merged: bool
) -> tuple[tuple[StateColumn, ...], tuple[str, ...]]:
    now = kept_aggregates(new.plan, new.number)
    if now is None:
        raise NoMigration("The new plan does not tell which aggregates its state keeps.")
    buffers = _buffers(old)
    found: list[StateColumn] = []
    for value in now:
        buffer = buffers.get(value)
        if buffer is None:
            found += _new_buffer(value, new.types.get(value, ""))
        else:
            found += _kept(value, buffer, new.types.get(value, ""), len(found), is_merged)
    dropped = tuple(text_of(value) for value in buffers if value not in now)
    return tuple(found), dropped


def _buffers(old: Side) -> Mapping[Tree, _Buffer]:
    """Return the columns of each old aggregate; check that their names are the names of its buffers."""
    kept = kept_aggregates(old.plan, old.number)
    stored = _stored(old).value
    if kept is None:
        raise NoMigration("The recorded plan does not tell which aggregates the state keeps.")
    found, at = {}, 0
    for value in kept:
        names = buffers_of([value])
        if names is None:
            raise NoMigration(f"The state columns of {text_of(value)} are not known.")
        end = at + len(names)
        if function_of(value) == "sum" and [c.name for c in stored[end : end + 1]] == [_IS_EMPTY]:
            names, end = [*names, _IS_EMPTY], end + 1
        if [column.name for column in stored[at:end]] != names:
            raise NoMigration(
                "The columns of the state are not the aggregates of the recorded plan."
            )
        found[value] = _Buffer(places=tuple(range(at, end)), columns=tuple(stored[at:end]))
        at = end
    if at != len(stored):
        raise NoMigration("The columns of the state are not the aggregates of the recorded plan.")
    return found


def _kept(
    value: Tree, buffer: _Buffer, result: str, at: int, is_merged: bool
) -> Iterator[StateColumn]:
    function = function_of(value)
    if is_merged and function not in _ADDITIVE:
        raise OtherState(f"values of {text_of(value)} of several groups cannot become one value")
    for offset, (source, column) in enumerate(zip(buffer.places, buffer.columns, strict=True)):
        type_ = column.type
        if offset == 0 and function in _RESULT and plain_type(result) != plain_type(type_):
            if not is_wider(type_, result):
                raise OtherState(
                    f"{text_of(value)} was {type_} and is {result or 'unknown'}, which cannot hold every value"
                )
            type_ = result
        move = Move.KEEP if source == at + offset else Move.REORDER
        if type_ != column.type:
            move = Move.WIDEN
        yield StateColumn(
            name=column.name,
            type=type_,
            move=Move.MERGE if is_merged else move,
            source=source,
            merge=_MERGES[column.name] if is_merged else None,
            of=text_of(value),
        )


def _new_buffer(value: Tree, result: str) -> list[StateColumn]:
    """Return the buffer of an aggregate that has read no row."""
    text, function = text_of(value), function_of(value)
    names = buffers_of([value])
    is_decimal = plain_type(result).startswith("decimal")
    if names is None or names == ["buf"] or not result or result.startswith("of "):
        raise OtherState(f"the state of an aggregate {text} that has read no row is not known")
    if function in ("avg", "mean") and plain_type(result) != "double":
        raise OtherState(f"the state of {text} of type {result} is not known")
    if function == "try_sum" or getattr(value, "options", None):
        # A sum that gives null on an overflow keeps a second column, which was measured.
        raise OtherState(f"the state of {text} with its options is not known")
    found = []
    for name in names:
        type_, initial = _fresh(name, function, result)
        found.append(_added(Column(name=name, type=type_), text, initial))
    if function == "sum" and is_decimal:
        found = [
            _added(Column(name="sum", type=result), text, "0"),
            _added(Column(name=_IS_EMPTY, type="boolean"), text, "TRUE"),
        ]
    return found


def _fresh(name: str, function: str, result: str) -> tuple[str, str]:
    if name == "count":
        return "bigint", "0"
    if name == _FLAG:
        return "boolean", "FALSE"
    if name in _MOMENTS or function in ("avg", "mean"):
        return "double", "0"
    return result, "NULL"


def _stored(old: Side) -> StoreSchema:
    if old.stored is None:
        raise NoMigration("The columns of the old state could not be read from the checkpoint.")
    return old.stored


def aggregate_texts(plan: QueryPlan, number: int) -> Sequence[str]:
    """Return the aggregates that an operator keeps, for readers; empty where they are not known."""
    return [text_of(value) for value in kept_aggregates(plan, number) or ()]
