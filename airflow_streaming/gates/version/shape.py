"""
The shape of a query: the measured query it resembles, and the order of its state keys.

Up to four columns, the order is as in the code. From five on, Spark before 4.3 takes them out of
Scala's hash set: in another order for every choice of names, and, if two hashes have the same
prefix, in another one in Scala 2.12 (Spark 3.5) than in 2.13 (Spark 4). Then one Spark cannot use
the other's state: with columns of several types Spark refuses it, and with columns of one type it
silently stops dropping duplicates. Spark 4.3 keeps the order in the code, but only in new
checkpoints.

A checkpoint does not show everything: Spark 3.5 does not name its operators, and no release notes
the type of a join. Then several shapes are possible, and a result must hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint, Operator, StoreType
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.matrix import Release
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan
from airflow_streaming.model.spark.releases import DUPLICATE_ORDER, PINS, release_at

MOST_ORDERED: Final = 4
"""So many columns keep their order in every release: Scala's small sets have no hashes."""
PIN: Final = DUPLICATE_ORDER
SINCE: Final = PINS[PIN][1].name
"""The first Spark that knows the setting."""
_BITS: Final = 5
_WORD: Final = 0xFFFFFFFF
_DUPLICATES: Final = ("__dummy__", "expiresAtMicros")
"""All that the two kinds of deduplication keep beside the key."""

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
NO_STORE: Final = "none"
FORMAT_2: Final = "format_2"
_AGGREGATES: Final = (
    "window_aggregate",
    "aggregate_update",
    "aggregate_objects",
    "aggregate_complete",
)
_WIDE: Final = ("deduplicate_wide", "deduplicate_alike")
_DEDUPLICATIONS: Final = ("deduplicate", "deduplicate_watermark", *_WIDE)
_JOINS: Final = (
    "inner_join",
    "left_outer_join",
    "right_outer_join",
    "full_outer_join",
    "left_semi_join",
)
_WITHIN: Final = ("deduplicate_within_watermark",)
_SESSIONS: Final = ("session_window",)
_GROUPS: Final = ("groups_with_state",)
_TIMERS: Final = "transform_with_state_timers"
_TTL: Final = "transform_with_state_ttl"
_VARIABLES: Final = ("transform_with_state", "transform_with_state_list", _TIMERS, _TTL)
_NO_TIME: Final = "NoTime"
_LIMITS: Final = ("limit",)
# Stores named default that 3.5, which does not name its operators, can have.
_DEFAULT_STORES: Final = (
    *_AGGREGATES,
    *_DEDUPLICATIONS,
    *_WITHIN,
    *_SESSIONS,
    *_GROUPS,
    *_LIMITS,
)
_KEPT_DUPLICATES: Final[Mapping[str, tuple[str, ...]]] = {
    "__dummy__": _DEDUPLICATIONS,
    "expiresAtMicros": _WITHIN,
}
_BY_NAME: Final[Mapping[str, tuple[str, ...]]] = {
    "stateStoreSave": _AGGREGATES,
    "dedupe": _DEDUPLICATIONS,
    "dedupeWithinWatermark": _WITHIN,
    "symmetricHashJoin": _JOINS,
    "sessionWindowStateStoreSaveExec": _SESSIONS,
    "applyInPandasWithState": _GROUPS,
    "transformWithStateInPandasExec": _VARIABLES,
    "globalLimit": _LIMITS,
}
_BY_SORT: Final[Mapping[OperatorKind, tuple[str, ...]]] = {
    OperatorKind.AGGREGATE: _AGGREGATES,
    OperatorKind.DEDUPLICATE: _DEDUPLICATIONS,
    OperatorKind.DEDUPLICATE_WITHIN_WATERMARK: _WITHIN,
    OperatorKind.JOIN: _JOINS,
    OperatorKind.SESSION_WINDOW: _SESSIONS,
    OperatorKind.GROUPS_WITH_STATE: _GROUPS,
    OperatorKind.TRANSFORM_WITH_STATE: _VARIABLES,
    OperatorKind.LIMIT: _LIMITS,
}
_CHAINS: Final[Mapping[tuple[tuple[str, ...], ...], str]] = {
    (_AGGREGATES, _DEDUPLICATIONS): "deduplicate_aggregate",
    (_AGGREGATES, _JOINS): "join_aggregate",
    (_AGGREGATES, _AGGREGATES): "aggregate_aggregate",
}
"""Measured queries of more than one operator, the one nearest to the sink first."""


def keeps_duplicates(schema: StoreSchema) -> bool:
    """Recognize a deduplication's store by its columns; Spark 3.5 does not name it."""
    return len(schema.value) == 1 and schema.value[0].name in _DUPLICATES


class KeyOrder(StrEnum):
    """The target's order of the columns, compared with the state."""

    SAME = "same"
    DIFFERENT = "different"
    UNTOLD = "untold"
    """Even the order that is there cannot be computed from the names."""


def compare_order(
    stored: StoreSchema, start: Release, target: Release, *, by_code: bool, is_pinned: bool
) -> KeyOrder:
    """
    Tell whether another Spark keeps the columns of a deduplication in the same order.

    :param by_code: Whether the checkpoint was begun with the order of the code.
    :param is_pinned: Whether its plans still say so; an older Spark leaves that out.
    """
    names = [column.name for column in stored.key]
    if len(names) <= MOST_ORDERED or start.minor == target.minor:
        return KeyOrder.SAME
    if is_pinned and not target.is_before(SINCE):
        return KeyOrder.SAME
    if not by_code and hashed_order(names, start) != names:
        return KeyOrder.UNTOLD
    return KeyOrder.SAME if hashed_order(names, target) == names else KeyOrder.DIFFERENT


def hashed_order(names: Sequence[str], release: Release) -> list[str]:
    """
    Return names in the order of Scala's hash set.

    Spark 3 is taken to be built with Scala 2.12, as it is when it comes from PyPI.
    """
    return _ordered(list(names), 0, nested_last=release_at(release.minor).scala != "2.12")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    A shape on a state store, as the matrix names them.

    :param name: E.g. ``inner_join``; empty for an unmeasured query.
    :param store: ``none``, ``hdfs``, ``rocksdb``, ``rocksdb_changelog``, ``format_2``, or the name
        of another.
    :param told_by: The evidence, for readers.
    """

    name: str
    store: str
    told_by: str

    @property
    def text(self) -> str:
        """Its name for readers."""
        name = self.name.replace("_", " ") or "query that is like no measured one"
        return name if self.store == NO_STORE else f"{name} on {self.store.replace('_', ' ')}"


def shapes_of(
    checkpoint: Checkpoint, plan: QueryPlan | None, schemas: Sequence[StoreSchema] = ()
) -> tuple[Shape, ...]:
    """
    Return every possible shape of a query.

    :param plan: Its plan, if known; the caller drops a plan that the checkpoint contradicts.
    :param schemas: State schemas as far as they were read; they show the number of deduplicated
        columns.
    """
    operators = checkpoint.operators
    if not operators and (plan is None or not plan.operators):
        return _stateless(plan)
    store = _store(checkpoint)
    if plan is not None and plan.operators:
        return _named(_by_plan(plan, operators), store, "its plan")
    names = [operator.name for operator in operators]
    told_by = "its operator metadata" if all(names) else "the names of its state stores"
    return _named(_by_checkpoint(operators, schemas), store, told_by)


def _ordered(names: list[str], level: int, *, nested_last: bool) -> list[str]:
    if level > 32 // _BITS:
        return names
    slots: dict[int, list[str]] = {}
    for name in names:
        slot = (_hash(name) >> (_BITS * level)) & ((1 << _BITS) - 1)
        slots.setdefault(slot, []).append(name)
    groups = [slots[slot] for slot in sorted(slots)]
    if nested_last:
        groups.sort(key=lambda group: len(group) > 1)
    return [
        name
        for group in groups
        for name in (
            group if len(group) == 1 else _ordered(group, level + 1, nested_last=nested_last)
        )
    ]


def _hash(text: str) -> int:
    """Return Java's hash of a text, mixed as Scala mixes it."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    value = (value + (~(value << 9) & _WORD)) & _WORD
    value ^= value >> 14
    value = (value + (value << 4 & _WORD)) & _WORD
    return value ^ value >> 10


def _stateless(plan: QueryPlan | None) -> tuple[Shape, ...]:
    names = ["stateless", "stateless_file_sink"]
    if plan is not None:
        names = names[1:] if plan.sink.sink == "file" else names[:1]
    told_by = "its plan" if plan is not None else "its checkpoint, which has no state"
    return tuple(Shape(name=name, store=NO_STORE, told_by=told_by) for name in names)


def _named(names: Sequence[str], store: str, told_by: str) -> tuple[Shape, ...]:
    return tuple(Shape(name=name, store=store, told_by=told_by) for name in names or [""])


def _by_plan(plan: QueryPlan, operators: Sequence[Operator]) -> Sequence[str]:
    names = [operator.name for operator in operators]
    if any(name is not None and name not in _BY_NAME for name in names):
        # E.g. the Scala side of transformWithState, which plans do not tell apart.
        return []
    families = [_BY_SORT.get(operator.sort, ()) for operator in plan.operators]
    if len(families) > 1:
        return _chain(families) if _all_inner(plan) else []
    return _narrowed(families[0], plan.operators[0], operators)


def _narrowed(
    family: Sequence[str], operator: OperatorPlan, stored: Sequence[Operator]
) -> Sequence[str]:
    if family == _JOINS:
        return [f"{operator.join_type}_join"] if f"{operator.join_type}_join" in _JOINS else []
    if family == _DEDUPLICATIONS:
        return _deduplications(len(operator.keys))
    if family == _VARIABLES:
        return _of_variables(stored[0]) if stored else family
    return family


def _all_inner(plan: QueryPlan) -> bool:
    joins = [each for each in plan.operators if each.sort is OperatorKind.JOIN]
    return all(join.join_type == "inner" for join in joins)


def _deduplications(columns: int) -> Sequence[str]:
    """Return the shapes of so many columns: from five on, Spark before 4.3 orders them by hash."""
    return [each for each in _DEDUPLICATIONS if (each in _WIDE) is (columns > 4)]


def _of_variables(operator: Operator) -> Sequence[str]:
    """Return the shapes of these state variables; empty if one was not measured."""
    variables = operator.state.get("stateVariables")
    if not isinstance(variables, Sequence) or not all(isinstance(v, Mapping) for v in variables):
        return _VARIABLES
    has_list = any(variable.get("stateVariableType") == "ListState" for variable in variables)
    expires = any(variable.get("ttlEnabled") for variable in variables)
    # Timers are state of their own, whether or not the user's code registers any.
    has_timers = operator.state.get("timeMode", _NO_TIME) != _NO_TIME
    if expires or has_timers:
        return [] if has_list else [_TTL if expires else _TIMERS]
    return ["transform_with_state_list" if has_list else "transform_with_state"]


def _by_checkpoint(operators: Sequence[Operator], schemas: Sequence[StoreSchema]) -> Sequence[str]:
    families = [_family(operator, schemas) for operator in operators]
    if families == [_VARIABLES]:
        return _of_variables(operators[0])
    if len(families) == 1:
        keys = next((len(one.key) for one in schemas if one.operator == operators[0].id), 0)
        return _deduplications(keys) if keys and families[0] == _DEDUPLICATIONS else families[0]
    return _chain(families) if all(operator.name for operator in operators) else []


def _family(operator: Operator, schemas: Sequence[StoreSchema]) -> tuple[str, ...]:
    if operator.name is not None:
        return _BY_NAME.get(operator.name, ())
    stores = {store.name for store in operator.stores}
    if stores == {"default"}:
        own = next((schema for schema in schemas if schema.operator == operator.id), None)
        if own is None:
            return _DEFAULT_STORES
        duplicates = (*_DEDUPLICATIONS, *_WITHIN)
        drops = keeps_duplicates(own)
        return (
            _KEPT_DUPLICATES.get(own.value[0].name, ())
            if drops
            else tuple(shape for shape in _DEFAULT_STORES if shape not in duplicates)
        )
    return _JOINS if any(name.startswith("left-") for name in stores) else ()


def _chain(families: Sequence[tuple[str, ...]]) -> list[str]:
    name = _CHAINS.get(tuple(families))
    return [name] if name else []


def _store(checkpoint: Checkpoint) -> str:
    found = {str(store.store) for each in checkpoint.operators for store in each.stores}
    found -= {StoreType.UNKNOWN.value}
    if not found:
        found = set(_of_provider(checkpoint.conf.get(_PROVIDER, "")))
    if len(found) != 1:
        return "+".join(sorted(found)) or "unknown"
    store = found.pop()
    if checkpoint.state_format != 2:
        return store
    return FORMAT_2 if store == StoreType.ROCKSDB_CHANGELOG else f"{store} in {FORMAT_2}"


def _of_provider(provider: str) -> Iterator[str]:
    name = provider.rpartition(".")[2]
    if name == "RocksDBStateStoreProvider":
        yield StoreType.ROCKSDB.value
    elif name == "HDFSBackedStateStoreProvider":
        yield StoreType.HDFS.value
