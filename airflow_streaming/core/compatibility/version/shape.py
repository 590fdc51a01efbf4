"""
Shape: which measured query a query is like, told by its plan or by its checkpoint alone.

A checkpoint does not tell everything: Spark 3.5 does not name its operators, and no release notes
the type of a join. Then there are several shapes that it may be, and what holds for one of them
alone cannot be taken for granted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint, Operator, StoreType
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.compatibility.version.key_order import keeps_duplicates
from airflow_streaming.core.plan.plan import OperatorPlan, OperatorSort, QueryPlan

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
_VARIABLES: Final = ("transform_with_state", "transform_with_state_list")
_LIMITS: Final = ("limit",)

# What 3.5, which does not name its operators, can have in a store that is named default.
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

_BY_SORT: Final[Mapping[OperatorSort, tuple[str, ...]]] = {
    OperatorSort.AGGREGATE: _AGGREGATES,
    OperatorSort.DEDUPLICATE: _DEDUPLICATIONS,
    OperatorSort.DEDUPLICATE_WITHIN_WATERMARK: _WITHIN,
    OperatorSort.JOIN: _JOINS,
    OperatorSort.SESSION_WINDOW: _SESSIONS,
    OperatorSort.GROUPS_WITH_STATE: _GROUPS,
    OperatorSort.TRANSFORM_WITH_STATE: _VARIABLES,
    OperatorSort.LIMIT: _LIMITS,
}

_CHAINS: Final[Mapping[tuple[tuple[str, ...], ...], str]] = {
    (_AGGREGATES, _DEDUPLICATIONS): "deduplicate_aggregate",
    (_AGGREGATES, _JOINS): "join_aggregate",
}
"""Measured queries of more than one operator, the one nearest to the sink first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    A shape on a state store, as the matrix names them.

    :param name: E.g. ``inner_join``; empty for what is like no measured query.
    :param store: ``none``, ``hdfs``, ``rocksdb``, ``rocksdb_changelog``, ``format_2``, or the
        name of another.
    :param told_by: What it was told by, for a person.
    """

    name: str
    store: str
    told_by: str

    @property
    def text(self) -> str:
        """Its name for a person."""
        name = self.name.replace("_", " ") or "query that is like no measured one"
        return name if self.store == NO_STORE else f"{name} on {self.store.replace('_', ' ')}"


def shapes_of(
    checkpoint: Checkpoint, plan: QueryPlan | None, schemas: Sequence[StoreSchema] = ()
) -> tuple[Shape, ...]:
    """
    Return every shape that a query may be; one of them it is.

    :param plan: Its plan where it is known; of one that the checkpoint contradicts
        the caller makes nothing of.
    :param schemas: State schemas as far as they were read; they tell how many columns
        deduplicate.
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
    joins = [each for each in plan.operators if each.sort is OperatorSort.JOIN]
    return all(join.join_type == "inner" for join in joins)


def _deduplications(columns: int) -> Sequence[str]:
    """Return the shapes of so many columns: from five on, Spark before 4.3 orders them by hash."""
    return [each for each in _DEDUPLICATIONS if (each in _WIDE) is (columns > 4)]


def _of_variables(operator: Operator) -> Sequence[str]:
    """Return the shapes of these state variables; none where they have what was not measured."""
    variables = operator.state.get("stateVariables")
    if not isinstance(variables, Sequence) or not all(isinstance(v, Mapping) for v in variables):
        return _VARIABLES
    if any(variable.get("ttlEnabled") for variable in variables):
        return []
    has_list = any(variable.get("stateVariableType") == "ListState" for variable in variables)
    return [each for each in _VARIABLES if each.endswith("_list") is has_list]


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
