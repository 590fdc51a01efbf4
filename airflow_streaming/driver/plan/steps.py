"""The steps of a plan that keep no state, and the order in which a plan is gone through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from airflow_streaming.core.plan.plan import StepPlan
from airflow_streaming.driver.plan.names import Names
from airflow_streaming.driver.plan.sources import SOURCES
from airflow_streaming.driver.plan.text import short_text
from airflow_streaming.driver.plan.tree import Node
from airflow_streaming.driver.plan.windows import is_window, time_column

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
        "CollectMetrics",
        "LogicalRDD",
        "LocalRelation",
        "LogicalRelation",
        "DataSourceV2Relation",
        "OneRowRelation",
        "Range",
    }
)
"""Nodes that change no row, or that are told elsewhere: as source, watermark or operator."""

_STEPS: Final = {
    "Filter": "filter",
    "Generate": "generate",
    "MapInPandas": "map",
    "MapInArrow": "map",
    "PythonMapInArrow": "map",
    "FlatMapGroupsInPandas": "map",
    "FlatMapGroupsInArrow": "map",
    "MapElements": "map",
    "Join": "join",
    "Union": "union",
}


class Visit(NamedTuple):
    """
    A node of a plan on the way from the sink to the sources.

    :param below: How many stateful operators lie between it and the sink.
    """

    node: Node
    below: int


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
    Return the step that a node without state is, ``None`` of one that says nothing.

    :param times: As ``window_times`` tells them.
    """
    node = visit.node
    if node.name in _SILENT:
        return None
    if node.name == "Project":
        return _projection(visit, names)
    if _belongs_to_window(node, times):
        return None
    said = [names.text(expression) for expression in _telling(node)]
    if node.name == "Join":
        said.insert(0, node.object("joinType") or "?")
    elif node.name not in _STEPS:
        said.insert(0, node.name)
    text = short_text(", ".join(said) or node.name)
    return StepPlan(step=_STEPS.get(node.name, "other"), text=text, below=visit.below)


def _projection(visit: Visit, names: Names) -> StepPlan | None:
    made = visit.node.expressions("projectList")
    # The column of a time window and what stands beside it are of Spark's own making.
    if any(is_window(one) for one in made):
        return None
    text = short_text(", ".join(map(names.text, made)))
    return StepPlan(step="project", text=text, below=visit.below)


def _telling(node: Node) -> Iterator[Node]:
    for field, told in node.fields.items():
        if field not in ("output", "outputAttrs", "generatorOutput"):
            made = Node(name="", index=0, fields={field: told}, children=())
            yield from made.all_expressions()


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
