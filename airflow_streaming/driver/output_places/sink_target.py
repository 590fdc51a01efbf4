"""
The place that a writer writes, resolved where only a driver can resolve it.

Two paths can be one folder through a symbolic link or a default file system, and a Kafka sink without the
option ``topic`` takes the topic from a column. A column with a constant is as good as the option.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.model.spark.plan import SinkPlan
from airflow_streaming.model.uris import is_local, local_path, scheme_of

_TOPIC: Final = "topic"
_PASSES_COLUMNS: Final = frozenset({"EventTimeWatermark", "Filter", "SubqueryAlias", "View"})
"""Nodes with one child and exactly the columns of that child."""
_DEFAULT_FS: Final = "fs.defaultFS"


def default_fs(context: Any) -> str:
    """Return the URI of the file system of a path without a scheme."""
    return str(context._jsc.hadoopConfiguration().get(_DEFAULT_FS) or "file:///")


def resolved(sink: SinkPlan, frame: Any, usual_fs: str) -> SinkPlan:
    """
    Return a sink with the topic of a constant column, or with the real path of its files.

    :param frame: The Java ``Dataset`` that is written.
    :param usual_fs: See ``default_fs``.
    """
    if sink.sink == "kafka" and not sink.target:
        tree = read_tree(frame.queryExecution().analyzed().toJSON())
        return replace(sink, target=constant_column(tree, _TOPIC))
    return replace(sink, real_path=_real_path(sink.target, usual_fs))


def constant_column(tree: Node, name: str) -> str:
    """Return the text that a plan gives each row in a column; empty where rows may differ."""
    node, wanted = tree, ""
    while len(node.children) == 1:
        if node.name == "Project":
            column = _column(node, name, wanted)
            while column is not None and column.name in ("Alias", "Cast") and column.children:
                column = column.children[0]
            if column is None or column.name != "AttributeReference":
                return _text(column)
            wanted = column.expression_id
        elif node.name not in _PASSES_COLUMNS:
            return ""
        node = node.children[0]
    return ""


def _column(project: Node, name: str, wanted: str) -> Node | None:
    for one in project.expressions("projectList"):
        if one.expression_id == wanted if wanted else str(one.fields.get("name")).lower() == name:
            return one
    return None


def _text(column: Node | None) -> str:
    is_text = column is not None and column.name == "Literal"
    value = column.fields.get("value") if is_text and column is not None else None
    return value if isinstance(value, str) else ""


def _real_path(target: str, usual_fs: str) -> str:
    """Return where an absolute path leads; empty where its spelling says it all."""
    if not target.startswith("/") and not scheme_of(target):
        return ""
    if not scheme_of(target) and not is_local(usual_fs):
        return f"{usual_fs.rstrip('/')}{target}"
    if not is_local(target):
        return ""
    plain = posixpath.normpath(local_path(target))
    real = str(Path(plain).resolve())
    return "" if real == plain else real
