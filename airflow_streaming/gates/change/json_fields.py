"""
Additional text fields of ``from_json``: every other field is read as before.

Spark reads any valid JSON value as text, so an additional text field makes no valid record corrupt.
A field of another type does: a record with a value that does not fit is null, kept as corrupt, or
ends the query. Malformed records are read differently, though: with the fault in a field outside
the schema, the whole record is null; with the field in the schema, only this field is null. So the
change passes only if corrupt records are filtered out in front of all state, by a filter on the
column that keeps them.

A schema with more nullable text fields gives the same values to code that extracts the old fields
one by one; code that uses the whole struct gets another value.

One finding names such a change, and the other rules judge the new plan as if its schema were the
old one. Columns made of the new fields are judged as any new column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

from airflow_streaming.gates.change.diff import leaves
from airflow_streaming.gates.change.faulty_records import (
    CORRUPT,
    STEPS,
    are_null_before_state,
    computed_in,
    corrupt_column,
    made_only_as,
    projections,
    trees_in,
)
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.plan.tree import FIELD, ColumnRef, Expr, Tree, is_op, replaced
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan

ADDED: Final = rule_named("step.json_text_field_added")
RULES: Final = (ADDED,)
_FUNCTION: Final = "json_to_structs"
_SCHEMA: Final = "schema"
_NODES: Final = {OperatorKind.AGGREGATE: "Aggregate", OperatorKind.DEDUPLICATE: "Deduplicate"}
"""Operators that it was measured in front of, and their nodes in Spark's plan."""
_CALL: Final = Expr("call")
"""Stands for a call in a plan."""
Field = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonCall:
    """
    A call of ``from_json`` in a plan.

    :param key: The call without its schema.
    :param fields: The schema's fields in Spark's JSON.
    """

    tree: Expr
    key: Expr
    fields: tuple[Field, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the fields."""
        return [str(field.get("name")) for field in self.fields]


def without_added_fields(pair: Pair) -> tuple[Pair, tuple[GateFinding, ...]]:
    """
    Return the pair with the old schemas in the new plan, and the finding that says so.

    Where it cannot be proved that nothing else changes, the pair comes back as it was.
    """
    widened = [*_widened(pair)] if pair.is_stateful and _has_known_shape(pair) else []
    if not widened or not _is_taken_apart(pair.new, [call.tree for call, _ in widened]):
        return pair, ()
    if not all(
        _leaves_corrupt_out(plan, call)
        for made, old in widened
        for plan, call in ((pair.new, made), (pair.old, old))
    ):
        return pair, ()
    new = _with_trees(pair.new, {call.tree: old.tree for call, old in widened})
    added = {name for call, old in widened for name in call.names if name not in old.names}
    finding = ADDED.found(
        new=", ".join(sorted(added)),
        evidence=pair.shown_at("schemas of from_json"),
        about=tuple(_places(pair.new, new)),
    )
    return replace(pair, new=new), (finding,)


def call_of(tree: Tree) -> JsonCall | None:
    """Return a call of ``from_json`` whose schema is a struct; ``None`` for any other tree."""
    if not isinstance(tree, Expr) or tree.op != _FUNCTION:
        return None
    try:
        schema = json.loads(tree.options.get(_SCHEMA, ""))
    except ValueError:
        return None
    json_fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(json_fields, list) or not all(
        isinstance(one, Mapping) for one in json_fields
    ):
        return None
    others = {key: text for key, text in tree.options.items() if key != _SCHEMA}
    key = Expr(tree.op, tree.args, type=tree.type, options=others)
    return JsonCall(tree=tree, key=key, fields=tuple(json_fields))


def _widened(pair: Pair) -> Iterator[tuple[JsonCall, JsonCall]]:
    """Yield each call of the new plan that has more fields, with its old call."""
    before, after = _by_key(pair.old), _by_key(pair.new)
    settings = {CORRUPT, *pair.new.conf.values(), *pair.new.settings.values()}
    for key, calls in after.items():
        old = before.get(key, [])
        was, now = (
            [c for c in some if c not in others] for some, others in ((old, calls), (calls, old))
        )
        # Where several schemas of one text change it is not known which became which.
        if len(was) == len(now) == 1 and _adds_texts_alone(was[0], now[0], settings):
            yield now[0], was[0]


def _adds_texts_alone(old: JsonCall, new: JsonCall, settings: Collection[str]) -> bool:
    added = [field for field in new.fields if field.get("name") not in old.names]
    kept = [field for field in new.fields if field.get("name") in old.names]
    names = [name.lower() for name in new.names]
    return (
        bool(added)
        and kept == list(old.fields)
        and len(names) == len({*names})
        and all(one.get("type") == "string" and one.get("nullable") is True for one in added)
        and not any(one.get("metadata") for one in added)
        # The column for corrupt records is not a JSON field.
        and not any(one["name"] in settings or _is_said(new, one["name"]) for one in added)
    )


def _is_said(call: JsonCall, name: str) -> bool:
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return any(word.search(text) for text in call.key.options.values())


def _has_known_shape(pair: Pair) -> bool:
    old, new = ([(n.node, n.below, n.branch) for n in plan.nodes] for plan in (pair.old, pair.new))
    plan = pair.new
    return (
        bool(old)
        and old == new
        and all(operator.sort in _NODES for operator in plan.operators)
        and all(step.step in STEPS for step in plan.steps)
    )


def _is_taken_apart(plan: QueryPlan, calls: Collection[Expr]) -> bool:
    """Tell whether nothing takes a struct whole but a projection that gives it a name."""
    bare = _with_trees(plan, dict.fromkeys(calls, _CALL))
    names = {
        name for items in projections(bare.steps) for name, way in items.items() if way == _CALL
    }
    if {name.name for name in names} & {column.name for column in plan.sink.schema}:
        return False
    # A column that is only passed on, or made of the call, extracts no field.
    computed = [tree for step in bare.steps for tree in computed_in(step) if tree != _CALL]
    return not any(
        _takes_whole(tree, names)
        for tree in (*computed, *trees_in((bare.operators, bare.watermarks)))
    )


def _takes_whole(tree: Tree, names: Collection[ColumnRef]) -> bool:
    """Tell whether an expression uses a call, or a column with its name, but for a field by name."""
    if isinstance(tree, ColumnRef):
        return any(tree.may_be(name) for name in names)
    if tree == _CALL or not isinstance(tree, Expr) or tree.hides_columns:
        return True
    # Fields that a plan takes by their place are others in another schema.
    is_by_name = is_op(tree, FIELD) and "name" in tree.options
    inside = [one for one in tree.args if not (is_by_name and _is_struct(one, names))]
    return any(_takes_whole(one, names) for one in inside)


def _is_struct(tree: Tree, names: Collection[ColumnRef]) -> bool:
    return tree == _CALL or (
        isinstance(tree, ColumnRef) and any(tree.may_be(name) for name in names)
    )


def _leaves_corrupt_out(plan: QueryPlan, call: JsonCall) -> bool:
    """Return whether a filter in front of all state drops corrupt records."""
    corrupt = corrupt_column(plan, call.key.options)
    steps = _with_trees(plan, {call.tree: _CALL}).steps
    structs = made_only_as(projections(steps), {_CALL})
    return corrupt in call.names and are_null_before_state(
        plan, steps, {Expr(FIELD, [one], options={"name": corrupt}) for one in (_CALL, *structs)}
    )


def _places(new: QueryPlan, narrowed: QueryPlan) -> Iterator[str]:
    """Yield the places at which the new plan differs for its schemas alone."""
    was, now = leaves(new), leaves(narrowed)
    for at in sorted(at for at in was if was[at] != now[at]):
        yield at
        if at.startswith("steps["):
            yield at.replace("steps", "nodes", 1)
    for number, operator in enumerate(new.operators):
        if operator != narrowed.operators[number]:
            yield f"nodes[{number}].{_NODES[operator.sort]}"


def _by_key(plan: QueryPlan) -> dict[Expr, list[JsonCall]]:
    trees = trees_in((plan.operators, plan.steps, plan.watermarks))
    calls = {one: call for tree in trees for one in tree.walk() if (call := call_of(one))}
    found: dict[Expr, list[JsonCall]] = {}
    for call in calls.values():
        found.setdefault(call.key, []).append(call)
    return found


def _with_trees(plan: QueryPlan, others: Mapping[Expr, Expr]) -> QueryPlan:
    """Return a plan with other expressions in its operators, steps and watermarks."""
    return replace(
        plan,
        operators=_changed(plan.operators, others),
        steps=_changed(plan.steps, others),
        watermarks=_changed(plan.watermarks, others),
    )


def _changed(value: Any, others: Mapping[Expr, Expr]) -> Any:
    if isinstance(value, Tree):
        return replaced(value, lambda one: others.get(one) if isinstance(one, Expr) else None)
    if isinstance(value, tuple):
        return tuple(_changed(one, others) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: _changed(getattr(value, one.name), others) for one in fields(value)}
        return replace(value, **changed)
    return value
