"""Windows in time, as Spark's analyzer takes them apart, and their measures."""

from __future__ import annotations

from typing import Final

from airflow_streaming.driver.plan.expressions import unnamed
from airflow_streaming.driver.plan.naming import Names
from airflow_streaming.driver.plan.nodes import Node
from airflow_streaming.model.plan.tree import Tree, literal
from airflow_streaming.model.spark.plan import type_name

_MICROSECONDS: Final = 1_000_000
_ADDING: Final = frozenset({"TimeAdd", "TimestampAddInterval", "TimestampAdd", "Add"})


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


def is_window(definition: Node) -> bool:
    struct = unnamed(definition)
    return struct.name == "CreateNamedStruct" and any(
        node.name == "PreciseTimestampConversion" for node in struct.walk()
    )


def window_of(definition: Node) -> tuple[int, int, int] | None:
    """Return length, slide and start of a time window in microseconds, ``None`` of no such one."""
    struct = unnamed(definition)
    remainder = next((node for node in struct.walk() if node.name == "Remainder"), None)
    if remainder is None or len(struct.children) != 4:
        return None
    offset, slide = remainder.children
    start = _number(offset.children[1]) if len(offset.children) == 2 else None
    last = next((node for node in struct.children[3].walk() if node.name == "Add"), None)
    length = None if last is None else _number(last.children[1])
    step = _number(slide)
    if length is None or step is None or start is None:
        return None
    return length, step, start


def gap_of(definition: Node, names: Names) -> Tree | None:
    """Return the gap of a session window; ``None`` for any other window."""
    struct = unnamed(definition)
    if len(struct.children) != 4 or window_of(definition) is not None:
        return None
    for node in struct.children[3].walk():
        if node.name in _ADDING and len(node.children) == 2:
            gap = node.children[1]
            gap = gap.children[0] if gap.name == "Cast" else gap
            return _interval(gap) if gap.name == "Literal" else names.tree(gap)
    return None


def time_column(definition: Node) -> Node | None:
    """Return the column that a window is made of."""
    struct = unnamed(definition)
    converted = (node for node in struct.walk() if node.name == "PreciseTimestampConversion")
    for node in converted:
        for child in node.children:
            if child.name != "PreciseTimestampConversion" and not child.name.startswith("Sub"):
                return child
    return None


def duration(microseconds: int) -> str:
    """Return a duration in words, e.g. ``20 seconds``."""
    if microseconds % _MICROSECONDS:
        return f"{microseconds} microseconds"
    return f"{microseconds // _MICROSECONDS} seconds"


def _number(node: Node) -> int | None:
    value = node.fields.get("value") if node.name == "Literal" else None
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _interval(node: Node) -> Tree:
    # The older ones know it as an interval, the newer as its text.
    of = type_name(node.fields.get("dataType"))
    value = str(node.fields.get("value")).removeprefix("interval ")
    return literal(value, "interval" if of == "string" else of)
