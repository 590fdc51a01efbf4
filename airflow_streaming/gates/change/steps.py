"""
Steps without state, and steps in front of state.

The watermark closes a window, and later windows are made by the new code alone. A running total is
never closed: it keeps every value added.

If state expires, as windows do behind a watermark, a change settles. If it does not, the state
holds results of the old code for ever.

Steps behind all state, and in a query without any, may change: new rows follow the new code, and
written rows are not revised. In front of a stateful operator they decide the input of its state,
and Spark does not compare them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from airflow_streaming.gates.change.diff import TABLES, differing_part
from airflow_streaming.gates.change.pair import Pair, ends_by_itself, is_at_least
from airflow_streaming.gates.change.projection import SEEING_ALL, trees_of_keys
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.model.plan.text import step_text, text_of
from airflow_streaming.model.plan.tree import ColumnRef, Expr, Tree, items_of, used_in
from airflow_streaming.model.spark.plan import OperatorPlan, QueryPlan, StepPlan

FILTER_BEFORE: Final = rule_named("step.filter_before_state")
FILTER_BEFORE_ENDLESS: Final = rule_named("step.filter_before_endless_state")
BEFORE: Final = rule_named("step.before_state")
BEFORE_ENDLESS: Final = rule_named("step.before_endless_state")
UNUSED_BEFORE: Final = rule_named("step.unused_before_state")
COLUMN_BEFORE: Final = rule_named("step.column_before_state")
PUSHED: Final = rule_named("step.filter_pushed_before_state")
PUSHED_ENDLESS: Final = rule_named("step.filter_pushed_before_endless_state")
TANGLED_BEFORE: Final = rule_named("step.projection_before_state")
STEPS_BEFORE_RULES: Final = (
    FILTER_BEFORE,
    FILTER_BEFORE_ENDLESS,
    BEFORE,
    BEFORE_ENDLESS,
    UNUSED_BEFORE,
    COLUMN_BEFORE,
    TANGLED_BEFORE,
    PUSHED,
    PUSHED_ENDLESS,
)

_Ways = dict[ColumnRef, list[Tree]]
"""The expressions of columns in several projections on top of each other."""

FILTER: Final = rule_named("step.filter")
PROJECT: Final = rule_named("step.project")
FUNCTION: Final = rule_named("step.function")
TABLE: Final = rule_named("step.table_join")
PARTITIONING: Final = rule_named("step.partitioning")
OTHER: Final = rule_named("step.other")
ORDER: Final = rule_named("step.order")
EXCEPT: Final = rule_named("step.except_refused")
EXCEPT_KEPT: Final = rule_named("step.except_kept")
RULES: Final = (
    FILTER,
    PROJECT,
    FUNCTION,
    TABLE,
    PARTITIONING,
    OTHER,
    ORDER,
    EXCEPT,
    EXCEPT_KEPT,
)
_REFUSES_EXCEPT: Final = (4, 4)
"""The first release that refuses EXCEPT on the rows of a stream, where no checkpoint keeps it."""
_BEHIND: Final = {
    "project": PROJECT,
    "filter": FILTER,
    "generate": PROJECT,
    "map": FUNCTION,
    "join": TABLE,
    "union": PROJECT,
    "table": TABLE,
}
_SEEING_ALL: Final = frozenset({"map", "other", "generate"})
_SPREADING: Final = ("Repartition", "RebalancePartitions")
"""Beginnings of the names of Spark's nodes that only move rows between partitions."""


def judge_except(new: QueryPlan, running: QueryPlan | None) -> Iterator[GateFinding]:
    """
    Judge EXCEPT with a stream on its left, which Spark refuses from 4.4 on where no checkpoint keeps it.

    :param running: The plan of a query that has run batches.
    """
    if not is_at_least(new.spark, _REFUSES_EXCEPT) or not subtracts_from_stream(new):
        return
    kept = running is not None and subtracts_from_stream(running)
    yield (EXCEPT_KEPT if kept else EXCEPT).found(evidence="nodes of the new plan")


def subtracts_from_stream(plan: QueryPlan) -> bool:
    """Tell whether a plan has EXCEPT with the rows of a stream on its left."""
    return any(
        node.node == "Except" and _is_stream(plan, f"{node.branch}.0") for node in plan.nodes
    )


def _is_stream(plan: QueryPlan, branch: str) -> bool:
    # Sources of streams are not among the nodes. Tables are, and a table alone is no stream.
    below = [node.node for node in plan.nodes if f"{node.branch}.".startswith(f"{branch}.")]
    return not TABLES & {*below} or bool({"Join", "Union"} & {*below})


def rule_before(pair: Pair, below: int, sort: str, old: list[Tree], new: list[Tree]) -> Rule | None:
    """
    Return the rule for a changed step in front of so many operators.

    :return: ``None`` where it matters no more than behind them.
    """
    if sort == "project":
        return _projection_before(pair, below, old, new)
    ends = all(ends_by_itself(pair.old, each) for each in pair.old.operators[:below])
    if sort == "filter":
        return FILTER_BEFORE if ends else FILTER_BEFORE_ENDLESS
    return BEFORE if ends else BEFORE_ENDLESS


def judge_steps(pair: Pair) -> Iterator[GateFinding]:
    """Compare the steps of both plans, those in front of each operator by themselves."""
    places = sorted({step.below for step in (*pair.old.steps, *pair.new.steps)})
    for below in places:
        sorts = {s.step for s in (*pair.old.steps, *pair.new.steps) if s.below == below}
        found = [finding for sort in sorted(sorts) for finding in _judge_place(pair, below, sort)]
        yield from found or _judge_order(pair, below)
    yield from _judge_pushed(pair)


def _projection_before(pair: Pair, below: int, old: list[Tree], new: list[Tree]) -> Rule | None:
    changed = _changed_columns(old, new)
    if changed is None:
        return TANGLED_BEFORE
    # Every operator behind the step is fed by it, through those between, and through other steps.
    fed = pair.old.operators[:below]
    between = [s for s in (*pair.old.steps, *pair.new.steps) if s.below and s.step != "project"]
    if any(step.step in _SEEING_ALL for step in between):
        return TANGLED_BEFORE
    trees = [tree for operator in fed for tree in _made_of(operator)]
    used = used_in([*trees, *(step.tree for step in between)], changed)
    is_used = used is None or bool(used) or any(map(_takes_all, fed))
    if not changed:
        return UNUSED_BEFORE
    return COLUMN_BEFORE if is_used else None


def _changed_columns(old: list[Tree], new: list[Tree]) -> set[ColumnRef] | None:
    """Return columns that both compute differently; ``None`` if unknown."""
    before, after = _merged(old), _merged(new)
    if before is None or after is None:
        return None
    changed = {name for name in before if name in after and before[name] != after[name]}
    return _with_made_of_them(changed | _reused_names(before, after), after)


def _reused_names(before: _Ways, after: _Ways) -> set[ColumnRef]:
    # v taken from the source before, and computed under the same name now, or the other way round.
    return {
        name
        for name, ways in (*before.items(), *after.items())
        if (name in before) != (name in after) and any(way != name for way in ways)
    }


def _with_made_of_them(changed: set[ColumnRef], ways: _Ways) -> set[ColumnRef] | None:
    found, size = set(changed), -1
    while len(found) != size:
        size = len(found)
        for name, trees in ways.items():
            used = used_in(trees, found)
            if used is None:
                return None
            if used:
                found.add(name)
    return found


def _merged(projections: list[Tree]) -> _Ways | None:
    # Several projections on top of each other: a column's ways, in order, without mere passing on.
    found: _Ways = {}
    for projection in projections:
        items = items_of(projection.args)
        if items is None:
            return None
        for name, way in items.items():
            ways = found.setdefault(name, [])
            if way != name:
                ways.append(way)
    return found


def _made_of(operator: OperatorPlan) -> list[Tree]:
    columns = (*operator.keys, *operator.left, *operator.right)
    return [
        *(ColumnRef(column.name) for column in columns),
        *trees_of_keys(operator),
        *operator.values,
    ]


def _takes_all(operator: OperatorPlan) -> bool:
    return operator.sort in SEEING_ALL


def _judge_pushed(pair: Pair) -> Iterator[GateFinding]:
    """Compare the filters that Spark applies in front of state, wherever the script has them."""
    for number, (old, new) in enumerate(zip(pair.old.operators, pair.new.operators, strict=True)):
        if old.pushed == new.pushed:
            continue
        ends = all(ends_by_itself(pair.old, one) for one in pair.old.operators[: number + 1])
        rule = PUSHED if ends else PUSHED_ENDLESS
        yield rule.found(
            old="; ".join(map(text_of, old.pushed)) or "none",
            new="; ".join(map(text_of, new.pushed)) or "none",
            evidence=f"the optimized plan in front of operator {number}; {pair.shown_by_plan}",
            about=(f"operators[{number}].pushed",),
        )


def _judge_place(pair: Pair, below: int, sort: str) -> Iterator[GateFinding]:
    old, new = _trees(pair.old.steps, below, sort), _trees(pair.new.steps, below, sort)
    if old == new:
        return
    gone, come = _difference(old, new), _difference(new, old)
    rule = _BEHIND.get(sort, OTHER)
    if rule is OTHER and all(_node(one).startswith(_SPREADING) for one in (*gone, *come)):
        rule = PARTITIONING
    elif below and rule is not OTHER:
        rule = rule_before(pair, below, sort, old, new) or rule
    where = " before state" if below else ""
    yield rule.found(
        f"The {sort} step{where} changes. {rule.sentence}",
        old=_shown(gone),
        new=_shown(come),
        evidence=f"steps[{below}].{sort}{_part(gone, come)} in {pair.shown_by_plan}",
        about=_places(below, sort, (*gone, *come)),
    )


def _part(gone: list[Tree], come: list[Tree]) -> str:
    """Return the path to the part in which the only changed step differs."""
    if (len(gone), len(come)) != (1, 1):
        return ""
    part = differing_part(gone[0], come[0])
    return f" at {part.path}" if part.path else ""


def _shown(steps: list[Tree]) -> str:
    return "; ".join(map(step_text, steps)) or "none"


def _node(step: Tree) -> str:
    """Return the name of a step's node in Spark's plan."""
    return step.op if isinstance(step, Expr) else "?"


def _places(below: int, sort: str, steps: tuple[Tree, ...] = ()) -> tuple[str, ...]:
    names = {*map(_node, steps)} if sort == "other" else {sort}
    # One branch more or less moves the nodes of the others; their texts are compared as steps.
    names = {"*"} if sort in ("join", "union", "table") else names
    nodes = (f"nodes[{below}].{name}" for name in sorted(names))
    return (f"steps[{below}].{sort}", f"steps[{below}].order", *nodes)


def _judge_order(pair: Pair, below: int) -> Iterator[GateFinding]:
    old, new = (
        [step for step in plan.steps if step.below == below] for plan in (pair.old, pair.new)
    )
    if old != new:
        # In front of state it matters as another filter does: other rows, or rows made otherwise.
        rule = rule_before(pair, below, "filter", [], []) if below else None
        yield (rule or ORDER).found(
            f"Steps change places. {(rule or ORDER).sentence}",
            old="; ".join(f"{step.step} {step_text(step.tree)}" for step in old),
            new="; ".join(f"{step.step} {step_text(step.tree)}" for step in new),
            evidence=f"steps[{below}] in {pair.shown_by_plan}",
            about=(f"steps[{below}].order", *_nodes_of(pair, below)),
        )


def _nodes_of(pair: Pair, below: int) -> set[str]:
    return {f"nodes[{below}].{step.step}" for step in pair.new.steps if step.below == below}


def _trees(steps: tuple[StepPlan, ...], below: int, sort: str) -> list[Tree]:
    return [step.tree for step in steps if step.step == sort and step.below == below]


def _difference(one: list[Tree], other: list[Tree]) -> list[Tree]:
    return list((Counter(one) - Counter(other)).elements()) or (one if one != other else [])
