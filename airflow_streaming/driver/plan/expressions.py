"""
Expressions of a plan as text that is the same in every run.

Spark's own text numbers every column in each run (``v#12``), and in the text this number cannot be
told from the user's words. So the text is written from the tree, with the columns' names, and
without details of this run or release: ids, time zones and evaluation modes.

A source column whose name occurs in several sources gets the number of its source. A computed
column is written as its expression, back to the next stateful operator below, because the state
above was made from it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.model.spark.plan import type_name

if TYPE_CHECKING:
    from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node, Origin, expression_in, expressions_in

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
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN_WORD: Final = re.compile(r"(?!(?:true|false|null|nan|infinity)$)[^\W\d]\w*", re.IGNORECASE)
"""A name that reads as nothing else: no field of a struct, number, literal or operator."""
_SIMPLE: Final = re.compile(
    r"(smallint|tinyint|float|date|timestamp|timestamp_ntz|decimal|interval)\b"
)
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
NAMING: Final = frozenset({"SubqueryAlias", "View"})
"""Nodes that name a plan and change no row; a view says when it was made, which is in every run."""
_CIPHER: Final = re.compile(r"aes|encrypt|decrypt|hmac|cipher", re.IGNORECASE)
Naming = Callable[[Node], str]
"""Returns the name of a column."""


def plain_name(attribute: Node) -> str:
    return str(attribute.fields.get("name", "?"))


@dataclass(frozen=True, slots=True)
class Wording:
    """
    The text of one plan's expressions.

    :param naming: Returns the name of a column.
    :param hidden: Asks the JVM for fields missing in the JSON; ``None`` without a JVM.
    :param ansi: Whether the session is in ANSI mode; ``None`` if not known.
    :param zone: The session's time zone.
    :param bound: Ids of the variables of each lambda function around, the outermost first.
    """

    naming: Naming = plain_name
    hidden: Hidden | None = None
    ansi: bool | None = None
    zone: str = ""
    bound: tuple[tuple[str, ...], ...] = ()

    def inside(self, function: Node) -> Wording:
        """Return the wording of a lambda function's body and variables."""
        variables = tuple(one.expression_id for one in function.children[1:])
        return replace(self, bound=(*self.bound, variables))

    def variable(self, node: Node) -> str:
        """
        Return the name of a lambda function's variable: its function, then its position.

        Its own name does not matter to the code, and pyspark numbers it anew for every function.
        Its type is the type of the function's argument, which is in the text too.
        """
        for outwards, variables in enumerate(reversed(self.bound)):
            if node.expression_id in variables:
                return f"lambda_{outwards}_{variables.index(node.expression_id)}"
        return f"lambda {plain_name(node)}"


PLAIN: Final = Wording()


def text_of(expression: Node, wording: Wording = PLAIN) -> str:
    return short_text(_text(expression, wording))


def short_text(text: str) -> str:
    """Return a text of bounded length that still differs when the whole one does."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: MAX_TEXT // 2]}... ({len(text)} characters, digest {digest})"


def _text(node: Node, wording: Wording) -> str:
    if node.name == "AttributeReference":
        return wording.naming(node)
    if node.name == "Literal":
        return _literal(node, wording)
    if node.name == "NamedLambdaVariable":
        return wording.variable(node)
    if node.name == "LambdaFunction":
        wording = wording.inside(node)
    counted = node.children[: _BEFORE_SEED.get(node.name)]
    inner = [_text(child, wording) for child in counted]
    symbol = _SYMBOLS.get(node.name)
    written = _FORMS.get(node.name)
    if symbol is not None and len(inner) == 2:
        text, said = f"({inner[0]} {symbol} {inner[1]})", {"left", "right"}
    elif written is not None:
        text, said = written(node, inner), _SAID_BY_FORMS.get(node.name, set())
    else:
        text, said = _call(node, inner), set()
    more = quoted(_more(node, wording, said))
    if node.name == "Alias" and more:
        return _alias(f"{inner[0]}{more}", word(str(node.fields.get("name"))))
    return f"{text}{more}"


def quoted(parts: list[str]) -> str:
    """Return the missing details in quotes, so that they cannot be read as columns."""
    told = "; ".join(filter(None, parts)).replace("'", "''")
    return f"['{told}']" if told else ""


def word(name: str) -> str:
    """Return a name as texts have it: in backquotes where it could be read as something else."""
    return name if _PLAIN_WORD.fullmatch(name) else "`{}`".format(name.replace("`", "``"))


def _literal(node: Node, wording: Wording) -> str:
    value, of = node.fields.get("value"), type_name(node.fields.get("dataType"))
    if value is None:
        return "NULL"
    if of == "string":
        told = str(value).replace("'", "''")
        return f"'{told}'"
    if of in ("int", "bigint", "boolean", "double"):
        return str(value)
    if wording.hidden is not None and not _SIMPLE.match(of):
        told = wording.hidden.literal(node).replace("'", "''")
        return f"{of} '{told}'"
    return f"{of} {value}"


def _more(node: Node, wording: Wording, said: set[str]) -> list[str]:
    """Return a node's other fields, and the fields missing in the JSON."""
    known = said if node.name in _FORMS or node.name in _SYMBOLS else _said_keys(node)
    found = []
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in known or key in _OF_ONE_RUN or value is None:
            continue
        if _points_to_children(value, len(node.children), children):
            continue
        text = _other(node, key, value, wording)
        if text:
            found.append(f"{key}={text}")
    return found + ([] if wording.hidden is None else wording.hidden.said(node))


def _other(node: Node, key: str, value: Any, wording: Wording) -> str:
    if key in _ANSI:
        return "" if wording.ansi is None or value == wording.ansi else str(value).lower()
    if key in _ZONES:
        return "" if not wording.zone or value == wording.zone else str(value)
    if _is_metadata(key):
        return ""  # the JSON shows an empty value for any value; ask the JVM
    if key == "udfDeterministic":
        return "" if value is True else "false"
    if value is False or value == {} or (isinstance(value, list) and not any(value)):
        return ""
    nested = [*expressions_in(value, Origin(node, key))]
    if nested:
        return ", ".join(whole_text(one, wording) for one in nested)
    return json.dumps(_without_ids(value), sort_keys=True)


def whole_text(tree: Node, wording: Wording) -> str:
    """Return a whole plan inside an expression, or an expression, as text."""
    shown = []
    for node in tree.walk():
        if node.name in NAMING:
            continue
        if _is_plan(node):
            told = [_text(one, wording) for one in node.all_expressions()]
            shown.append(f"{node.name}({', '.join(told)}){quoted(node_fields(node, wording))}")
        else:
            return _text(tree, wording)
    return " < ".join(shown)


def node_fields(node: Node, wording: Wording) -> list[str]:
    """Return a node's details besides its expressions."""
    found = []
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
        found.append(f"{key}={json.dumps(_without_ids(value), sort_keys=True)}")
    return found + ([] if wording.hidden is None else wording.hidden.said(node))


def _is_plan(node: Node) -> bool:
    return ".plans." in str(node.fields.get("class")) or ".execution." in str(
        node.fields.get("class")
    )


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    if "jvmId" in value:
        return "id"
    return {key: _without_ids(told) for key, told in value.items() if key not in _OF_ONE_RUN}


def _aggregate(node: Node, inner: list[str]) -> str:
    text = inner[0] if inner else "?"
    if node.fields.get("isDistinct") is True:
        text = text.replace("(", "(DISTINCT ", 1)
    return text if len(inner) < 2 else f"{text} FILTER (WHERE {inner[1]})"


def _python_udf(node: Node, inner: list[str]) -> str:
    # Its fingerprint covers its code; a rename alone is no change.
    return f"python_udf({', '.join(inner)}): {type_name(node.fields.get('dataType'))}"


def _alias(text: str, name: str) -> str:
    # Some Sparks name a column by its own name, and some leave it as it is.
    return text if text == name else f"{text} AS {name}"


def _field(node: Node, inner: list[str]) -> str:
    """Write a field of a struct by its name; ``select("o.*")`` gives Catalyst its place alone."""
    name, place = _field_name(node), node.fields.get("ordinal")
    return f"{inner[0]}.{place if name is None else word(name)}"


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
    told = _json_type(node)
    fields = told.get("fields") if isinstance(told, Mapping) else None
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
    told = (node.fields.get(name) for name in ("dataType", "requiredSchema", "schema"))
    return next(filter(None, told), None)


_FORMS: Final[Mapping[str, Callable[[Node, list[str]], str]]] = {
    "Alias": lambda node, inner: _alias(inner[0], word(str(node.fields.get("name")))),
    "Cast": lambda node, inner: f"cast({inner[0]} as {type_name(node.fields.get('dataType'))})",
    "AggregateExpression": _aggregate,
    "PythonUDF": _python_udf,
    "GetStructField": _field,
}
_SAID_BY_FORMS: Final[Mapping[str, set[str]]] = {
    "Alias": {"child", "name"},
    "Cast": {"child", "dataType"},
    "AggregateExpression": {"isDistinct", "mode", "filter", "aggregateFunction"},
    "PythonUDF": {"name", "dataType", "children"},
    "GetStructField": {"child", "name", "ordinal"},
}


def _call(node: Node, inner: list[str]) -> str:
    name = _NAMES.get(node.name) or _HUMP.sub("_", node.name).lower()
    said = [f"{key}={value}" for key, value in _said(node)]
    arguments = ", ".join([*inner, *said])
    if _CIPHER.search(node.name + arguments):
        # The arguments may contain a secret key of the script, so only a digest is written.
        arguments = f"digest {hashlib.sha256(arguments.encode()).hexdigest()[:16]}"
    return f"{name}({arguments})"


def _said(node: Node) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    children: set[int] = set()
    for key, value in node.fields.items():
        if key in _OF_ONE_RUN | _ANSI | _ZONES or _is_metadata(key):
            continue
        if _points_to_children(value, len(node.children), children):
            continue
        text = _scalar(key, value)
        if text:
            found.append((key, text))
    return found


def _said_keys(node: Node) -> set[str]:
    return {key for key, _ in _said(node)}


def _is_metadata(key: str) -> bool:
    return key in ("metadata", "explicitMetadata")


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


class Names:
    """
    The names of one plan's columns.

    :param tree: The whole plan.
    :param wording: How its expressions are written down; the naming is its own.
    """

    def __init__(self, tree: Node, wording: Wording = PLAIN) -> None:
        self._own = dict(_of_sources(tree))
        self.wording = replace(wording, naming=self.name)

    def name(self, attribute: Node) -> str:
        return self._own.get(attribute.expression_id) or word(plain_name(attribute))

    def text(self, expression: Node) -> str:
        return text_of(expression, self.wording)

    def key(self, expression: Node) -> str:
        return text_of(expression, replace(self.wording, naming=_numbered))

    def computed(self, expression: Node, below: Node) -> str:
        """
        Return an expression with the columns' definitions in the place of their names.

        :param below: The plan that gives the columns.
        """
        known = definitions(below)
        done: dict[str, str] = {}

        def naming(attribute: Node) -> str:
            key = attribute.expression_id
            if key not in known:
                return self.name(attribute)
            if key not in done:
                done[key] = self.name(attribute)  # should a definition ever hold itself
                done[key] = text_of(unnamed(known[key]), wording)
            return done[key]

        wording = replace(self.wording, naming=naming)
        return text_of(expression, wording)


def _numbered(column: Node) -> str:
    return f"{plain_name(column)}#{column.expression_id}"


def unnamed(expression: Node) -> Node:
    """Return an expression without its alias."""
    return expression.children[0] if expression.name == "Alias" else expression


def definitions(plan: Node) -> Mapping[str, Node]:
    """Return the expression of every column computed in a plan, down to the next stateful one."""
    found: dict[str, Node] = {}
    node = plan
    while len(node.children) == 1 and node.name not in _STATEFUL:
        for alias in node.expressions("projectList"):
            if alias.name == "Alias":
                found.setdefault(alias.expression_id, alias)
        if node.name == "Expand":
            found.update({key: found.get(key, value) for key, value in _expanded(node).items()})
        node = node.children[0]
    return found


_STATEFUL: Final = frozenset({"Aggregate", "FlatMapGroupsInPandasWithState", "MapGroupsWithState"})


def _expanded(node: Node) -> Mapping[str, Node]:
    # A sliding window: every row is taken once for each window it is in.
    rows = node.fields.get("projections")
    first = rows[0] if isinstance(rows, list) and rows else []
    made = (expression_in(one, Origin(node, "projections", (0, i))) for i, one in enumerate(first))
    row = tuple(one for one in made if one is not None)
    output = node.expressions("output")
    if len(row) != len(output):
        return {}
    pairs = zip(output, row, strict=True)
    return {to.expression_id: by for to, by in pairs if by.name != "AttributeReference"}


def _of_sources(tree: Node) -> Iterator[tuple[str, str]]:
    """Yield columns of one name in several branches, with the number of the leaf each comes from."""
    columns: dict[str, tuple[str, int]] = {}
    for node, leaves in reversed([*_leaves_below(tree)]):
        if len(leaves) == 1:
            (place,) = leaves
            for column in _made_by(node):
                columns[column.expression_id] = (plain_name(column), place)
    places: dict[str, set[int]] = {}
    for name, place in columns.values():
        places.setdefault(name, set()).add(place)
    for key, (name, place) in columns.items():
        if len(places[name]) > 1:
            yield key, f"{word(name)}@{place}"


def _leaves_below(tree: Node) -> Iterator[tuple[Node, frozenset[int]]]:
    nodes = [*tree.walk()]
    leaves = [node for node in nodes if not node.children and node.name != "CTERelationRef"]
    known: dict[int, frozenset[int]] = {
        id(leaf): frozenset({place}) for place, leaf in enumerate(leaves)
    }
    for node in reversed(nodes):
        if node.children:
            below = [known.get(id(child), frozenset()) for child in node.children]
            known[id(node)] = below[0] if len(below) == 1 else frozenset().union(*below)
    for node in nodes:
        yield node, known.get(id(node), frozenset())


def _made_by(node: Node) -> Iterator[Node]:
    if not node.children:
        yield from node.expressions("output")
        return
    for name in ("projectList", "aggregateExpressions"):
        yield from (one for one in node.expressions(name) if one.name == "Alias")
    for name in ("generatorOutput", "outputAttrs"):
        yield from node.expressions(name)


_MICROSECONDS: Final = 1_000_000
_ADDING: Final = frozenset({"TimeAdd", "TimestampAddInterval", "TimestampAdd", "Add"})


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


def gap_of(definition: Node, names: Names) -> str:
    """Return the gap of a session window as text; empty of any other window."""
    struct = unnamed(definition)
    if len(struct.children) != 4 or window_of(definition) is not None:
        return ""
    for node in struct.children[3].walk():
        if node.name in _ADDING and len(node.children) == 2:
            gap = node.children[1]
            gap = gap.children[0] if gap.name == "Cast" else gap
            return _interval(gap) if gap.name == "Literal" else names.text(gap)
    return ""


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


def _interval(literal: Node) -> str:
    # The older ones know it as an interval, the newer as its text.
    of = type_name(literal.fields.get("dataType"))
    value = str(literal.fields.get("value")).removeprefix("interval ")
    return value if of in ("string", "interval") else f"{value} ({of})"
