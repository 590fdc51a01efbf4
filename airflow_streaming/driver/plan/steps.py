"""The steps of a plan that keep no state, and the other nodes that it is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from airflow_streaming.driver.code.functions import own_places
from airflow_streaming.driver.plan.expressions import (
    NAMING,
    Names,
    is_window,
    node_fields,
    quoted,
    short_text,
    time_column,
)
from airflow_streaming.driver.plan.nodes import Node, Origin, expressions_in
from airflow_streaming.driver.plan.sources import SOURCES
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


def window_times(tree: Node) -> frozenset[str]:
    """Return the ids of the columns that windows are made of."""
    columns = (
        time_column(one)
        for node in tree.walk()
        if node.name in ("Project", "Expand")
        for one in node.all_expressions()
        if is_window(one)
    )
    return frozenset(column.expression_id for column in columns if column is not None)


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
    said = [names.text(expression) for expression in _telling(node)]
    sort = STEP_KINDS.get(node.name, "other" if node.children else "table")
    if node.name == "Join":
        said.insert(0, node.object("joinType") or "?")
    elif node.name not in STEP_KINDS:
        said.insert(0, node.name)
    text = (", ".join(said) or node.name) + quoted(node_fields(node, names.wording))
    return StepPlan(step=sort, text=short_text(text), below=visit.below)


def node_of(visit: Visit, names: Names, times: frozenset[str]) -> NodePlan | None:
    """
    Return a whole node; ``None`` for a node without details of its own.

    Nodes that Spark makes for a window are left out: the operator describes the window.
    """
    node = visit.node
    if node.name in _BY_OTHER_WAYS or _is_of_window(node, times):
        return None
    told = [names.text(one) for one in node.all_expressions()]
    text = "\x1e".join([*told, *node_fields(node, names.wording)])
    digest = hashlib.sha256(own_places().marked(text).encode()).hexdigest()[:16]
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
    text = short_text(", ".join(map(names.text, made)))
    return StepPlan(step="project", text=text, below=visit.below)


def _telling(node: Node) -> Iterator[Node]:
    for field, told in node.fields.items():
        if field not in ("output", "outputAttrs", "generatorOutput"):
            yield from expressions_in(told, Origin(node, field))


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
