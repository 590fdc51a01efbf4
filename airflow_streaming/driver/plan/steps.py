"""The steps of a plan that keep no state, and the other nodes that it is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from airflow_streaming.driver.code.code_objects import own_places
from airflow_streaming.driver.plan.columns import Names, is_window
from airflow_streaming.driver.plan.expressions import NAMING, node_options
from airflow_streaming.driver.plan.nodes import Node, Origin, expressions_in
from airflow_streaming.driver.plan.sources import SOURCES
from airflow_streaming.model.plan.tree import Expr
from airflow_streaming.model.spark.plan import STEP_KINDS, NodePlan, StepPlan

_SILENT: Final = frozenset(
    {
        *SOURCES,
        "SubqueryAlias",
        "View",
        "EventTimeWatermark",
        "UpdateEventTimeWatermarkColumn",
        "LocalLimit",
        "CTERelationDef",
        "ResolvedHint",
    }
)
"""Nodes that change no row, or that are described elsewhere: as source, watermark or operator."""
_BY_OTHER_WAYS: Final = frozenset({*SOURCES, *NAMING, "ResolvedHint"})
"""Nodes that no list of nodes needs: sources are compared by themselves, names change no row."""


class Visit(NamedTuple):
    """
    A node of a plan on the way from the sink to the sources.

    :param below: How many stateful operators lie between it and the sink.
    :param branch: Which child was taken at each node of several.
    """

    node: Node
    below: int
    branch: str = ""


def step_of(visit: Visit, names: Names, times: frozenset[str]) -> StepPlan | None:
    """
    Return a node's step; ``None`` for a stateful node or one without details.

    :param times: The result of ``window_times``.
    """
    node = visit.node
    if node.name in _SILENT:
        return None
    if node.name == "Project":
        return _projection(visit, names)
    if _belongs_to_window(node, times):
        return None
    options = node_options(node, names.wording)
    if node.name == "Join":
        options = {"type": node.object("joinType") or "?", **options}
    tree = Expr(node.name, map(names.tree, _telling(node)), options=options)
    sort = STEP_KINDS.get(node.name, "other" if node.children else "table")
    return StepPlan(step=sort, tree=tree, below=visit.below)


def node_of(visit: Visit, names: Names, times: frozenset[str]) -> NodePlan | None:
    """
    Return a whole node; ``None`` for a node without details of its own.

    Nodes that Spark makes for a window are left out: the operator describes the window.
    """
    node = visit.node
    if node.name in _BY_OTHER_WAYS or _is_of_window(node, times):
        return None
    tree = Expr(
        node.name,
        map(names.tree, node.all_expressions()),
        options=node_options(node, names.wording),
    )
    text = own_places().marked(json.dumps(tree.to_json(), sort_keys=True))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return NodePlan(node=node.name, below=visit.below, branch=visit.branch, digest=digest)


def _is_of_window(node: Node, times: frozenset[str]) -> bool:
    if node.name == "Project":
        return any(map(is_window, node.expressions("projectList")))
    return _belongs_to_window(node, times)


def _projection(visit: Visit, names: Names) -> StepPlan | None:
    made = visit.node.expressions("projectList")
    # Spark itself makes the column of a time window and the columns beside it.
    if any(is_window(one) for one in made):
        return None
    tree = Expr(visit.node.name, map(names.tree, made))
    return StepPlan(step="project", tree=tree, below=visit.below)


def _telling(node: Node) -> Iterator[Node]:
    for field, value in node.fields.items():
        if field not in ("output", "outputAttrs", "generatorOutput"):
            yield from expressions_in(value, Origin(node, field))


def _belongs_to_window(node: Node, times: frozenset[str]) -> bool:
    """Tell whether Spark made it for a window: the rows' copies, or a check of their times."""
    if node.name == "Expand":
        return any(map(is_window, node.all_expressions()))
    condition = node.expression("condition") if node.name == "Filter" else None
    if condition is None:
        return False
    if condition.name == "IsNotNull":
        return condition.children[0].expression_id in times
    return any(one.name == "PreciseTimestampConversion" for one in condition.walk())
