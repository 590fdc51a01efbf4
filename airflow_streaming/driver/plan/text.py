"""
Expressions as text that is the same in every run.

Spark's own text numbers every column anew (``v#12``), and the number cannot be told from the user's
words once it is text. So expressions are written down from the tree, with the columns' names, and
without what only this run or this release knows: ids, time zones and modes of evaluation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_streaming.core.plan.types import type_name
from airflow_streaming.driver.plan.tree import Node

MAX_TEXT: Final = 2_000
"""Characters of one expression; of a longer one the beginning and a digest of all are kept."""

_SYMBOLS: Final = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "And": "AND",
    "Or": "OR",
    # Two names of one thing: it was renamed in 4.1.
    "TimeAdd": "+",
    "TimestampAddInterval": "+",
}
_NAMES: Final = {"Average": "avg", "CreateNamedStruct": "named_struct", "CreateArray": "array"}
_UNSAID: Final = frozenset(
    {
        "class",
        "num-children",
        "exprId",
        "resultId",
        "metadata",
        "explicitMetadata",
        "nonInheritableMetadataKeys",
        "qualifier",
        "evalMode",
        "evalContext",
        "failOnError",
        "timeZoneId",
        "zoneId",
        "ansiEnabled",
        "pythonUDF",
        "evalType",
    }
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CIPHER: Final = re.compile(r"aes|encrypt|decrypt|hmac|cipher", re.IGNORECASE)

Naming = Callable[[Node], str]
"""Says what a column is called."""


def plain_name(attribute: Node) -> str:
    """Return the name that a column has."""
    return str(attribute.fields.get("name", "?"))


def text_of(expression: Node, naming: Naming = plain_name) -> str:
    """Return an expression as text."""
    return short_text(_text(expression, naming))


def short_text(text: str) -> str:
    """Return a text of bounded length that still differs when the whole one does."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: MAX_TEXT // 2]}... ({len(text)} characters, digest {digest})"


def _text(node: Node, naming: Naming) -> str:
    if node.name == "AttributeReference":
        return naming(node)
    if node.name == "Literal":
        return _literal(node)
    inner = [_text(child, naming) for child in node.children]
    symbol = _SYMBOLS.get(node.name)
    if symbol is not None and len(inner) == 2:
        return f"({inner[0]} {symbol} {inner[1]})"
    written = _FORMS.get(node.name)
    return _call(node, inner) if written is None else written(node, inner)


def _literal(node: Node) -> str:
    value, of = node.fields.get("value"), type_name(node.fields.get("dataType"))
    if value is None:
        return "NULL"
    if of == "string":
        return f"'{value}'"
    return str(value) if of in ("int", "bigint", "boolean", "double") else f"{of} {value}"


def _aggregate(node: Node, inner: list[str]) -> str:
    text = inner[0] if inner else "?"
    if node.fields.get("isDistinct") is True:
        text = text.replace("(", "(DISTINCT ", 1)
    return text if len(inner) < 2 else f"{text} FILTER (WHERE {inner[1]})"


def _python_udf(node: Node, inner: list[str]) -> str:
    of = type_name(node.fields.get("dataType"))
    return f"{node.fields.get('name')}({', '.join(inner)}): {of}"


def _field(node: Node, inner: list[str]) -> str:
    return f"{inner[0]}.{node.fields.get('name') or node.fields.get('ordinal')}"


_FORMS: Final[Mapping[str, Callable[[Node, list[str]], str]]] = {
    "Alias": lambda node, inner: f"{inner[0]} AS {node.fields.get('name')}",
    "Cast": lambda node, inner: f"cast({inner[0]} as {type_name(node.fields.get('dataType'))})",
    "AggregateExpression": _aggregate,
    "PythonUDF": _python_udf,
    "GetStructField": _field,
}


def _call(node: Node, inner: list[str]) -> str:
    name = _NAMES.get(node.name) or _HUMP.sub("_", node.name).lower()
    said = [f"{key}={value}" for key, value in _said(node)]
    arguments = ", ".join([*inner, *said])
    if _CIPHER.search(node.name + arguments):
        # What stands here may be a key that the script was given.
        arguments = f"digest {hashlib.sha256(arguments.encode()).hexdigest()[:16]}"
    return f"{name}({arguments})"


def _said(node: Node) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in _UNSAID or _points_to_children(value, len(node.children), children):
            continue
        text = _scalar(key, value)
        if text:
            found.append((key, text))
    return found


def _points_to_children(value: Any, count: int, seen: set[int]) -> bool:
    places = value if isinstance(value, list) else [value]
    if not places or not all(type(place) is int and 0 <= place < count for place in places):
        return False
    fresh = set(places) - seen
    seen |= fresh
    return len(fresh) == len(places)


def _scalar(key: str, value: Any) -> str:
    if key.lower().endswith("type") and not isinstance(value, bool):
        return "" if value is None else type_name(value)
    if isinstance(value, Mapping) and "object" in value:
        return str(value["object"]).rstrip("$").rpartition(".")[2]
    if isinstance(value, bool):
        return "true" if value else ""
    return str(value) if isinstance(value, str | int | float) else ""
