"""
Expressions of Spark's plan as trees that are the same in every run.

Spark's own text numbers every column in each run (``v#12``), and in the text this number cannot be
distinguished from the user's words. So the tree is made from Spark's own, with the columns' names, and
without details of this run or release: ids, time zones and evaluation modes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.driver.plan.nodes import Node, Origin, expressions_in
from airflow_streaming.driver.plan.sources import SOURCES, column_of
from airflow_streaming.model.plan.schema import column_texts, type_name
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import (
    ALIAS,
    CAST,
    CUT,
    FIELD,
    LITERAL,
    MAX_DEPTH,
    ColumnRef,
    Expr,
    Tree,
    columns_in,
)

if TYPE_CHECKING:
    from airflow_streaming.driver.plan.hidden import Hidden

MAX_WEIGHT: Final = 2_500
"""Characters of one expression; of a larger one the beginning and a digest of all are kept."""
_BEGINNING: Final = 500
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
_OF_ONE_RUN: Final = frozenset(
    {
        *("class", "num-children", "exprId", "resultId", "qualifier", "nonInheritableMetadataKeys"),
        # Of observed metrics: how many frames the session had made before.
        "dataframeId",
        # Of random functions, which draw a new seed at each planning if the user sets none.
        *("randomSeed", "hideSeed"),
    }
)
_BEFORE_SEED: Final = {"Rand": 0, "Randn": 0, "RandStr": 1, "Uniform": 2}
"""
Children of a random function in front of its seed. Python and Scala draw a seed for ``rand()`` that
plans cannot tell from a user's seed, so seeds do not count: with another seed the values are as
random.
"""
_ANSI: Final = frozenset({"failOnError", "ansiEnabled"})
_ZONES: Final = frozenset({"timeZoneId", "zoneId"})
_METADATA: Final = frozenset({"metadata", "explicitMetadata"})
"""The JSON is empty for any value; the tree asks the JVM instead."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SIMPLE: Final = re.compile(
    r"(smallint|tinyint|float|date|timestamp|timestamp_ntz|decimal|interval)\b"
)
_BARE: Final = frozenset({"string", "int", "bigint", "boolean", "double"})
_OF_NO_ROW: Final = frozenset(
    {
        "joinType",
        "outputPartitioning",
        "outputOrdering",
        "sourceName",
        "session",
        "nodeId",
        "id",
        "cteId",
        "hint",
        "_resolved",
    }
)
_CATALOG_TABLES: Final = frozenset({"catalogTable", "tableMeta"})
_IDENTITY: Final = frozenset(
    {"identifier", "provider", "storage", "partitionColumnNames", "bucketSpec"}
)
NAMING: Final = frozenset({"SubqueryAlias", "View"})
"""Nodes that name a plan and change no row; a view says when it was made, which is in every run."""
_CIPHER: Final = re.compile(r"aes|encrypt|decrypt|hmac|cipher", re.IGNORECASE)
Details = tuple[dict[str, str], list[Tree]]
"""Options of an expression, and the expressions in its other fields."""

_Make = Callable[[Node, list[Tree], dict[str, str]], Tree]


def plain_name(attribute: Node) -> str:
    return str(attribute.fields.get("name", "?"))


def plain_column(attribute: Node) -> Tree:
    return ColumnRef(plain_name(attribute))


@dataclass(frozen=True, slots=True)
class Wording:
    """
    How the expressions of one plan become trees.

    :param naming: Returns the tree of a column.
    :param hidden: Asks the JVM for fields missing in the JSON; ``None`` without a JVM.
    :param ansi: Whether the session is in ANSI mode; ``None`` if not known.
    :param bound: Ids of the variables of each lambda function around, the outermost first.
    """

    naming: Callable[[Node], Tree] = plain_column
    hidden: Hidden | None = None
    ansi: bool | None = None
    zone: str = ""
    bound: tuple[tuple[str, ...], ...] = ()

    def inside(self, function: Node) -> Wording:
        """Return the wording of a lambda function's body and variables."""
        variables = tuple(one.expression_id for one in function.children[1:])
        return replace(self, bound=(*self.bound, variables))

    def variable(self, node: Node) -> Tree:
        """
        Return a lambda function's variable: its function, then its position.

        Its own name does not matter to the code, and pyspark numbers it anew for every function.
        Its type is the type of the function's argument, which is in the tree too.
        """
        name = f"lambda {plain_name(node)}"
        for outwards, variables in enumerate(reversed(self.bound)):
            if node.expression_id in variables:
                name = f"lambda_{outwards}_{variables.index(node.expression_id)}"
                break
        return Expr("lambda_variable", options={"name": name})

    def said(self, node: Node) -> dict[str, str]:
        """Return the fields of a node that its JSON leaves out."""
        return {} if self.hidden is None else self.hidden.said(node)


PLAIN: Final = Wording()


def tree_of(node: Node, wording: Wording = PLAIN) -> Tree:
    """Return an expression as a tree of bounded size."""
    if node.name == "AttributeReference":
        return wording.naming(node)
    if node.name == "Literal":
        return bounded(_literal(node, wording))
    if node.name == "NamedLambdaVariable":
        return wording.variable(node)
    if node.name == "LambdaFunction":
        wording = wording.inside(node)
    counted = node.children[: _BEFORE_SEED.get(node.name)]
    args = [tree_of(child, wording) for child in counted]
    form = _FORMS.get(node.name)
    if form is not None:
        known, make = form
        options, others = _details(node, wording, known)
        return bounded(make(node, [*args, *others], options))
    if node.name in _SYMBOLS and len(args) == 2:
        options, others = _details(node, wording, frozenset({"left", "right"}))
        return bounded(Expr(_SYMBOLS[node.name], [*args, *others], options=options))
    return bounded(_call(node, args, wording))


def bounded(tree: Tree) -> Tree:
    """Return a tree of bounded size that still differs when the whole one does."""
    if tree.weight <= MAX_WEIGHT and tree.depth <= MAX_DEPTH:
        return tree
    digest = tree.digest.strip()[:16]
    return Expr(CUT, options={"begins": text_of(tree)[:_BEGINNING], "digest": digest})


def unnamed(expression: Node) -> Node:
    """Return an expression without its alias."""
    return expression.children[0] if expression.name == "Alias" else expression


def whole_tree(node: Node, wording: Wording) -> Tree:
    """Return a whole plan inside an expression, or an expression, as a tree."""
    found = []
    for one in node.walk():
        if one.name in NAMING:
            continue
        if not _is_plan(one):
            return tree_of(node, wording)
        args = [tree_of(each, wording) for each in one.all_expressions()]
        found.append(bounded(Expr(one.name, args, options=node_options(one, wording))))
    return bounded(Expr("plan", found))


def node_options(node: Node, wording: Wording) -> dict[str, str]:
    """Return a node's details besides its expressions."""
    found = {}
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in _OF_ONE_RUN or key in _OF_NO_ROW or value is None or value is False:
            continue
        if node.name == "Sample" and key == "seed":
            continue
        if _points_to_children(value, len(node.children), children):
            continue
        if value in ([], {}) or any(True for _ in expressions_in(value, Origin(node, key))):
            continue
        content = _identity_of(value) if key in _CATALOG_TABLES else value
        found[key] = json.dumps(_without_ids(content), sort_keys=True)
    return {**_columns_of_table(node), **found, **wording.said(node)}


def _literal(node: Node, wording: Wording) -> Tree:
    value, of = node.fields.get("value"), type_name(node.fields.get("dataType"))
    if value is None:
        return Expr(LITERAL, type=of)
    if wording.hidden is not None and of not in _BARE and not _SIMPLE.match(of):
        value = wording.hidden.literal(node)
    return Expr(LITERAL, type=of, options={"value": str(value)})


def _call(node: Node, args: list[Tree], wording: Wording) -> Tree:
    name = _NAMES.get(node.name) or _HUMP.sub("_", node.name).lower()
    named = dict(_said(node))
    options, others = _details(node, wording, frozenset(named))
    made = Expr(name, [*args, *others], options={**named, **options})
    texts = [*map(text_of, args), *named, *named.values()]
    if not any(_CIPHER.search(one) for one in (node.name, *texts)):
        return made
    # The arguments may contain a secret key of the script, so only a digest and the columns are kept.
    digest = hashlib.sha256(made.digest.encode()).hexdigest()[:16]
    return Expr(name, columns_in([made]) or (), options={"digest": digest})


def _details(node: Node, wording: Wording, known: frozenset[str]) -> Details:
    """
    Return a node's other fields, and the fields missing in the JSON.

    :param known: Fields that the tree has already.
    """
    options: dict[str, str] = {}
    others: list[Tree] = []
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in known or key in _OF_ONE_RUN or value is None:
            continue
        if _points_to_children(value, len(node.children), children):
            continue
        nested = [*expressions_in(value, Origin(node, key))]
        if nested and key not in _METADATA:
            others.append(Expr(key, [whole_tree(one, wording) for one in nested]))
        elif text := _other(key, value, wording):
            options[key] = text
    return {**options, **wording.said(node)}, others


def _other(key: str, value: Any, wording: Wording) -> str:
    if key in _ANSI:
        return "" if wording.ansi is None or value == wording.ansi else str(value).lower()
    if key in _ZONES:
        return "" if not wording.zone or value == wording.zone else str(value)
    if key in _METADATA:
        return ""
    if key == "udfDeterministic":
        return "" if value is True else "false"
    if value is False or value == {} or (isinstance(value, list) and not any(value)):
        return ""
    return json.dumps(_without_ids(value), sort_keys=True)


def _columns_of_table(node: Node) -> dict[str, str]:
    """Return the columns of a table with their types, which its rows are read by."""
    is_table = not node.children and node.name not in SOURCES and node.name != "CTERelationRef"
    columns = node.expressions("output") if is_table else ()
    return {"columns": column_texts(map(column_of, columns))} if columns else {}


def _identity_of(table: Any) -> Any:
    """Return a catalog's entry of a table without times, statistics and its columns, told elsewhere."""
    if not isinstance(table, Mapping):
        return table
    return {key: table[key] for key in sorted(_IDENTITY & table.keys())}


def _is_plan(node: Node) -> bool:
    of = str(node.fields.get("class"))
    return ".plans." in of or ".execution." in of


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    if "jvmId" in value:
        return "id"
    return {key: _without_ids(content) for key, content in value.items() if key not in _OF_ONE_RUN}


def _alias(node: Node, args: list[Tree], options: dict[str, str]) -> Tree:
    name = ColumnRef(plain_name(node))
    # Some Sparks name a column by its own name, and some leave it as it is.
    if args == [name] and not options:
        return name
    return Expr(ALIAS, args, options={"name": name.name, **options})


def _cast(node: Node, args: list[Tree], options: dict[str, str]) -> Tree:
    return Expr(CAST, args, type=type_name(node.fields.get("dataType")), options=options)


def _aggregate(node: Node, args: list[Tree], options: dict[str, str]) -> Tree:
    if node.fields.get("isDistinct") is True:
        options = {"distinct": "true", **options}
    return args[0] if len(args) == 1 and not options else Expr("aggregate", args, options=options)


def _python_udf(node: Node, args: list[Tree], options: dict[str, str]) -> Tree:
    # Its fingerprint covers its code; a rename alone changes nothing.
    return Expr("python_udf", args, type=type_name(node.fields.get("dataType")), options=options)


def _field(node: Node, args: list[Tree], options: dict[str, str]) -> Tree:
    """Return a field of a struct by its name; ``select("o.*")`` gives Catalyst its place alone."""
    name, place = _field_name(node), node.fields.get("ordinal")
    where = {"ordinal": str(place)} if name is None else {"name": name}
    return Expr(FIELD, args, options={**where, **options})


_FORMS: Final[Mapping[str, tuple[frozenset[str], _Make]]] = {
    "Alias": (frozenset({"child", "name"}), _alias),
    "Cast": (frozenset({"child", "dataType"}), _cast),
    "AggregateExpression": (
        frozenset({"isDistinct", "mode", "filter", "aggregateFunction"}),
        _aggregate,
    ),
    "PythonUDF": (frozenset({"name", "dataType", "children"}), _python_udf),
    "GetStructField": (frozenset({"child", "name", "ordinal"}), _field),
}
"""The fields that each form reads, and the function that makes the tree."""


def _field_name(node: Node) -> str | None:
    """Return a field's name, which is the author's own text where the type of its struct is not known."""
    place = node.fields.get("ordinal")
    names = [field.get("name") for field in _struct_fields(node.children[0])]
    if isinstance(place, int) and 0 <= place < len(names):
        # Of two fields of one name only the place tells which is meant.
        return str(names[place]) if names.count(names[place]) == 1 else None
    name = node.fields.get("name")
    return None if name is None else str(name)


def _struct_fields(node: Node) -> list[Mapping[str, Any]]:
    """Return the fields of the struct that an expression gives; none where that is not known."""
    json_type = _json_type(node)
    fields = json_type.get("fields") if isinstance(json_type, Mapping) else None
    found = fields if isinstance(fields, list) else []
    return found if all(isinstance(field, Mapping) for field in found) else []


def _json_type(node: Node) -> Any:
    if node.name == "Alias":
        return _json_type(node.children[0])
    if node.name == "GetStructField":
        place, fields = node.fields.get("ordinal"), _struct_fields(node.children[0])
        if isinstance(place, int) and 0 <= place < len(fields):
            return fields[place].get("type")
        return None
    # Of a function that parses text: the schema, or the part of it that the optimizer leaves.
    types = (node.fields.get(name) for name in ("dataType", "requiredSchema", "schema"))
    return next(filter(None, types), None)


def _said(node: Node) -> Iterator[tuple[str, str]]:
    """Yield the plain values among a function's fields."""
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in _OF_ONE_RUN | _ANSI | _ZONES | _METADATA:
            continue
        if _points_to_children(value, len(node.children), children):
            continue
        text = _scalar(key, value)
        if text:
            yield key, text


def _points_to_children(value: Any, count: int, seen: set[int]) -> bool:
    places = value if isinstance(value, list) else [value]
    if not places or not all(type(place) is int and 0 <= place < count for place in places):
        return False
    fresh = set(places) - seen
    seen |= fresh
    return len(fresh) == len(places)


def _scalar(key: str, value: Any) -> str:
    if key.lower().endswith("type") and not isinstance(value, bool):
        # A nested type is written in full, because its name says too little.
        return type_name(value) if isinstance(value, str) else ""
    if isinstance(value, Mapping) and "object" in value:
        return str(value["object"]).rstrip("$").rpartition(".")[2]
    if isinstance(value, bool):
        return "true" if value else ""
    return str(value) if isinstance(value, str | int | float) else ""
