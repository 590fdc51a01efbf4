"""
The stateful operators of a plan, and what the state of each is made of.

They are fewer than those of its sides: Spark prunes what nobody above the join asks for before it
runs the plan. So the optimizer is asked, once, and only of plans that hold such a join.

They are made by the processor's ``init``, on the workers, when a query starts. In plan mode it is
called here with a handle that only writes down what it is asked for.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.patching import patch_method
from airflow_streaming.driver.plan.expressions import (
    Names,
    Node,
    Wording,
    definitions,
    duration,
    gap_of,
    is_window,
    node_fields,
    quoted,
    read_tree,
    short_text,
    time_column,
    unnamed,
    window_of,
)
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.sources import SOURCES, column_of
from airflow_streaming.model.spark.plan import (
    OPAQUE,
    Column,
    OperatorKind,
    OperatorPlan,
    columns_of,
    ddl,
    type_name,
)


def functions_of(node: Node, names: Names) -> dict[str, Node]:
    """Return the aggregate functions in their order, each once, by their text."""
    found: dict[str, Node] = {}
    for output in node.expressions("aggregateExpressions"):
        for one in output.walk():
            if one.name == "AggregateExpression":
                found.setdefault(names.key(one), one)
    return found


def outputs_of(function: str, node: Node, names: Names) -> list[str]:
    """Return the names of the columns that an aggregate function is in."""
    return [
        str(output.fields.get("name", "?"))
        for output in node.expressions("aggregateExpressions")
        if any(
            one.name == "AggregateExpression" and names.key(one) == function
            for one in output.walk()
        )
    ]


def types_of(
    functions: Mapping[str, Node], node: Node, schema: tuple[Column, ...], names: Names
) -> list[str]:
    """
    Return the type of each function's result.

    :param schema: The columns that the aggregation gives.
    """
    outputs = node.expressions("aggregateExpressions")
    known = {
        names.key(unnamed(output)): schema[place].type
        for place, output in enumerate(outputs)
        if place < len(schema)
    }
    return [known.get(key) or _inner_types(function) for key, function in functions.items()]


def _inner_types(function: Node) -> str:
    # Inside a larger expression its own type is not told; that of what it is made of is.
    of = [
        type_name(one.fields.get("dataType"))
        for one in function.walk()
        if one.name in ("AttributeReference", "Cast")
    ]
    return f"of {', '.join(of)}" if of else ""


class Reader:
    """
    Reads the operators of one plan.

    :param plan: The plan in the JVM, with what its JSON leaves out.
    :param output_mode: Of the query; a limit keeps state in append mode only.
    :param variables: Of ``transformWithState``: the state by the id of its function.
    """

    def __init__(
        self, plan: Hidden, names: Names, *, output_mode: str, variables: Mapping[str, str]
    ) -> None:
        self._plan, self._names = plan, names
        self._mode, self._variables = output_mode, variables

    def read(self, node: Node) -> OperatorPlan | None:
        """Return the operator that a node of a plan is, ``None`` of one that keeps no state."""
        read = _SORTS.get(node.name)
        if read is None or not is_streaming(node):
            return None
        return read(self, node)

    def _aggregate(self, node: Node) -> OperatorPlan:
        below, grouping = node.children[0], node.expressions("groupingExpressions")
        known = definitions(below)
        functions = functions_of(node, self._names)
        schema = self._schema(node)
        made = OperatorPlan(
            sort=OperatorKind.AGGREGATE,
            keys=tuple(self._key(key, node, schema) for key in grouping),
            key_expressions=tuple(self._key_text(key, below) for key in grouping),
            values=self._values(functions, below),
            value_types=tuple(types_of(functions, node, schema, self._names)),
            outputs=tuple(",".join(outputs_of(key, node, self._names)) for key in functions),
            results=tuple(map(self._names.text, node.expressions("aggregateExpressions"))),
            ends=any(has_event_time(self._plan, key) for key in grouping),
        )
        windows = [d for key in grouping if (d := known.get(key.expression_id)) and is_window(d)]
        for definition in windows:
            length = window_of(definition)
            if length is not None:
                made = replace(made, window_us=length)
            else:
                gap = gap_of(definition, self._names)
                made = replace(made, sort=OperatorKind.SESSION_WINDOW, gap=gap)
        return made

    def _values(self, functions: Mapping[str, Node], below: Node) -> tuple[str, ...]:
        return tuple(self._names.computed(one, below) for one in functions.values())

    def _key(self, key: Node, node: Node, schema: tuple[Column, ...]) -> Column:
        if key.name == "AttributeReference":
            return column_of(key)
        text = self._names.text(unnamed(key))
        outputs = node.expressions("aggregateExpressions")
        for place, output in enumerate(outputs):
            if self._names.text(unnamed(output)) == text and place < len(schema):
                return schema[place]
        return Column(name=text, type="?")

    def _key_text(self, key: Node, below: Node) -> str:
        definition = definitions(below).get(key.expression_id)
        if definition is None or not is_window(definition):
            return self._names.computed(unnamed(key), below)
        column = time_column(definition)
        of = "?" if column is None else self._names.computed(column, below)
        length = window_of(definition)
        if length is None:
            return f"session_window({of}, {gap_of(definition, self._names)})"
        said = ", ".join(duration(part) for part in _shown_window(length))
        return f"window({of}, {said})"

    def _distinct(self, node: Node) -> OperatorPlan:
        columns = self._schema(node)
        names = tuple(column.name for column in columns)
        return OperatorPlan(sort=OperatorKind.AGGREGATE, keys=columns, key_expressions=names)

    def _deduplicate(self, node: Node) -> OperatorPlan:
        keys = node.expressions("keys")
        within = node.name == "DeduplicateWithinWatermark"
        return OperatorPlan(
            sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK if within else OperatorKind.DEDUPLICATE,
            keys=tuple(map(column_of, keys)),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in keys),
            ends=within or any(has_event_time(self._plan, key) for key in keys),
        )

    def _join(self, node: Node) -> OperatorPlan | None:
        left, right = node.children
        if not (is_streaming(left) and is_streaming(right)):
            return None
        condition = node.expression("condition")
        pairs = [] if condition is None else _equal_keys(condition, _ids(left))
        sides = (left, right)
        return OperatorPlan(
            sort=OperatorKind.JOIN,
            keys=tuple(column_of(a) for a, _ in pairs if a.name == "AttributeReference"),
            key_expressions=tuple(
                f"{self._names.computed(a, left)} = {self._names.computed(b, right)}"
                for a, b in pairs
            ),
            join_type=_join_type(node),
            condition="" if condition is None else self._names.text(condition),
            left=self._schema(sides[0]),
            right=self._schema(sides[1]),
        )

    def _limit(self, node: Node) -> OperatorPlan | None:
        if self._mode != "append":
            return None
        number = node.expression("limitExpr")
        text = "?" if number is None else self._names.text(number)
        return OperatorPlan(sort=OperatorKind.LIMIT, values=(text,))

    def _groups(self, node: Node) -> OperatorPlan:
        grouping = node.expressions("groupingAttributes")
        function = node.expression("functionExpr")
        return OperatorPlan(
            sort=OperatorKind.GROUPS_WITH_STATE,
            keys=tuple(map(column_of, grouping)),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in grouping),
            state_schema=ddl(node.fields.get("stateType")),
            output_schema=_ddl_of(node.expressions("outputAttrs")),
            timeout=node.object("timeout"),
            function="" if function is None else str(function.fields.get("name", "")),
            code=self._code(function),
        )

    def _code(self, function: Node | None) -> str:
        if function is None:
            return f"{OPAQUE} function"
        told = [one for one in self._plan.said(function) if one.startswith("func=")]
        return told[0].partition("=")[2] if told else f"{OPAQUE} function"

    def _transform(self, node: Node) -> OperatorPlan:
        # Spark puts the keys in front of the columns that the function gets.
        count = node.fields.get("groupingAttributesLen")
        first = node.children[0].expressions("projectList")[: count if type(count) is int else 0]
        grouping = node.expressions("groupingAttributes") or first
        function = node.expression("functionExpr")
        told = function.fields.get("resultId") if function is not None else None
        key = str(told.get("id", "")) if isinstance(told, Mapping) else ""
        return OperatorPlan(
            sort=OperatorKind.TRANSFORM_WITH_STATE,
            keys=tuple(map(column_of, map(unnamed, grouping))),
            key_expressions=tuple(self._names.computed(k, node.children[0]) for k in grouping),
            state_schema=self._variables.get(key, ""),
            output_schema=_ddl_of(node.expressions("outputAttrs")),
            time_mode=node.object("timeMode"),
            code=self._code(function),
        )

    def _other(self, node: Node) -> OperatorPlan:
        told = ", ".join(map(self._names.text, node.all_expressions()))
        fields = quoted(node_fields(node, self._names.wording))
        return OperatorPlan(
            sort=OperatorKind.OTHER, values=(node.name,), results=(short_text(told + fields),)
        )

    def _schema(self, node: Node) -> tuple[Column, ...]:
        return columns_of(json.loads(self._plan.at(node).schema().json()))


_SORTS: Final[Mapping[str, Callable[[Reader, Node], OperatorPlan | None]]] = {
    "Aggregate": Reader._aggregate,
    "Distinct": Reader._distinct,
    "Deduplicate": Reader._deduplicate,
    "DeduplicateWithinWatermark": Reader._deduplicate,
    "Join": Reader._join,
    "GlobalLimit": Reader._limit,
    "FlatMapGroupsInPandasWithState": Reader._groups,
    "TransformWithStateInPandas": Reader._transform,
    "TransformWithStateInPySpark": Reader._transform,
    "FlatMapGroupsWithState": Reader._other,
    "MapGroupsWithState": Reader._other,
    "TransformWithState": Reader._other,
    "Except": Reader._other,
    "Intersect": Reader._other,
    "Window": Reader._other,
}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DELAY: Final = "spark.watermarkDelayMs"
"""What Spark puts into the metadata of a column that a watermark is on."""
_SOME_TIME_MS: Final = 10**12


def has_event_time(plan: Hidden, expression: Node) -> bool:
    """Tell whether a column carries a watermark, as Spark itself tells it; a doubt is a no."""
    try:
        return bool(plan.at(expression).metadata().contains(_DELAY))
    except Exception:  # noqa: BLE001 - an expression without a name of its own carries none
        return False


def is_streaming(node: Node) -> bool:
    """Tell whether rows keep coming out of a plan."""
    return any(
        one.name in SOURCES or (one.name == "CTERelationRef" and one.fields.get("isStreaming"))
        for one in node.walk()
    )


def _shown_window(window: tuple[int, int, int]) -> tuple[int, ...]:
    length, slide, start = window
    if start:
        return window
    return (length,) if length == slide else (length, slide)


def _join_type(node: Node) -> str:
    name = node.object("joinType") or "?"
    return _HUMP.sub("_", name).lower()


def _ids(plan: Node) -> frozenset[str]:
    return frozenset(
        one.expression_id
        for node in plan.walk()
        for expression in node.all_expressions()
        for one in expression.walk()
        if one.expression_id
    )


def _equal_keys(condition: Node, left: frozenset[str]) -> list[tuple[Node, Node]]:
    found = []
    waiting = [condition]
    while waiting:
        node = waiting.pop(0)
        if node.name == "And":
            waiting[:0] = node.children
        elif node.name in ("EqualTo", "EqualNullSafe"):
            a, b = node.children
            found.append((a, b) if _is_of(a, left) else (b, a))
    return [(a, b) for a, b in found if _is_of(a, left) and not _is_of(b, left)]


def _is_of(expression: Node, ids: frozenset[str]) -> bool:
    columns = [one.expression_id for one in expression.walk() if one.name == "AttributeReference"]
    return bool(columns) and all(column in ids for column in columns)


def _ddl_of(attributes: tuple[Node, ...]) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in map(column_of, attributes))


def with_kept_columns(
    operators: Sequence[OperatorPlan], optimized: Optimized | None, notes: list[str]
) -> tuple[OperatorPlan, ...]:
    """
    Return the operators, joins with the columns that they keep.

    :param optimized: ``None`` where the optimizer could not be asked.
    :param notes: Gets a sentence when a join is not found in the optimized plan.
    """
    joins = [one for one in operators if one.sort is OperatorKind.JOIN]
    if not joins or optimized is None:
        return tuple(operators)
    kept = _kept(optimized)
    if len(kept) != len(joins):
        notes.append("The columns that a join keeps could not be read: Spark changes the joins.")
        return tuple(operators)
    found = iter(kept)
    return tuple(_with(one, next(found)) if one in joins else one for one in operators)


def _with(join: OperatorPlan, kept: Kept) -> OperatorPlan:
    return replace(join, left=kept.left, right=kept.right, run_as=kept.join_type, ends=kept.ends)


class Kept(NamedTuple):
    """What the optimized plan says of a join."""

    left: tuple[Column, ...]
    right: tuple[Column, ...]
    join_type: str
    ends: bool


class Optimized(NamedTuple):
    """
    A plan as Spark has optimized it.

    :param plan: In the JVM, with what its JSON leaves out.
    """

    tree: Node
    plan: Hidden
    names: Names


def optimized_plan(frame: Any, plan: Any, gateway: Any, wording: Wording) -> Optimized:
    """Ask Spark's optimizer for what it would make of a plan; nothing is run."""
    found = frame.sparkSession().sessionState().optimizer().execute(plan)
    tree = read_tree(found.toJSON())
    hidden = Hidden(found, gateway, wording.ansi).placed(tree)
    return Optimized(tree, hidden, Names(tree, replace(wording, hidden=hidden)))


def with_pushed_filters(
    operators: Sequence[OperatorPlan], optimized: Optimized | None, mode: str, notes: list[str]
) -> tuple[OperatorPlan, ...]:
    """Return the operators with the filters that Spark applies in front of each."""
    if not operators or optimized is None:
        return tuple(operators)
    nodes = [node for node in optimized.tree.walk() if _is_stateful(node, mode)]
    if len(nodes) != len(operators):
        notes.append(
            "The filters in front of state could not be read: Spark changes the operators."
        )
        return tuple(operators)
    return tuple(
        replace(one, pushed=tuple(_filters(node, optimized.names)))
        for one, node in zip(operators, nodes, strict=True)
    )


def _is_stateful(node: Node, mode: str) -> bool:
    if node.name == "Join":
        return all(is_streaming(side) for side in node.children)
    if node.name == "GlobalLimit" and mode != "append":
        return False
    return node.name in _SORTS and is_streaming(node)


def _filters(node: Node, names: Names) -> list[str]:
    conditions = (
        one.expression("condition")
        for child in node.children
        for one in child.walk()
        if one.name == "Filter"
    )
    waiting = [condition for condition in conditions if condition is not None]
    found = set()
    while waiting:
        one = waiting.pop()
        if one.name == "And":
            waiting.extend(one.children)
        elif one.name != "IsNotNull":
            found.add(names.text(one))
    return sorted(found)


def _kept(optimized: Optimized) -> list[Kept]:
    joins = [
        node
        for node in optimized.tree.walk()
        if node.name == "Join" and all(is_streaming(side) for side in node.children)
    ]
    at = optimized.plan.at
    return [
        Kept(
            _columns(at(join.children[0])),
            _columns(at(join.children[1])),
            _join_type(join),
            _join_ends(join, optimized.plan),
        )
        for join in joins
    ]


def _join_ends(join: Node, plan: Hidden) -> bool:
    condition = join.expression("condition")
    pairs = [] if condition is None else _equal_keys(condition, _ids(join.children[0]))
    if any(has_event_time(plan, one) for pair in pairs for one in pair):
        return True
    try:
        return _bounds_times(plan.at(join), plan.gateway.jvm)
    except Exception:  # noqa: BLE001 - what cannot be told is taken for endless
        return False


def _bounds_times(join: Any, jvm: Any) -> bool:
    """Tell whether the condition bounds the times of both sides, by Spark's own function."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    helper, mark = catalyst.analysis.StreamingJoinHelper, jvm.scala.Some(_SOME_TIME_MS)
    pairs = ((join.left(), join.right()), (join.right(), join.left()))
    for side, other in pairs:
        timed = _timed(other.output(), catalyst.expressions.AttributeSet)
        if timed is None:
            return False
        found = helper.getStateValueWatermark(side.outputSet(), timed, join.condition(), mark)
        if not found.isDefined():
            return False
    return True


def _timed(output: Any, sets: Any) -> Any:
    found = None
    for place in range(output.size()):
        column = output.apply(place)
        if column.metadata().contains(_DELAY):
            found = sets.apply(column) if found is None else getattr(found, "$plus")(column)
    return found


def _columns(plan: Any) -> tuple[Column, ...]:
    return columns_of(json.loads(plan.schema().json()))


_GETTERS: Final = {
    "getValueState": "value",
    "getListState": "list",
    "getMapState": "map",
}


class Variables:
    """The variables of the processors that a script has used, by the id of Spark's function."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.notes: list[str] = []

    def patch(self, grouped: type) -> None:
        """Patch the class of grouped rows."""
        for name in ("transformWithStateInPandas", "transformWithState"):
            if hasattr(grouped, name):
                owner = next(one for one in grouped.__mro__ if name in one.__dict__)
                patch_method(owner, name, self._ask)

    def _ask(self, original: Any, grouped: Any, given: Mapping[str, Any]) -> Any:
        # The processor is Spark's to keep: what init sets on it stays on a copy.
        frame = original(grouped, **given)
        try:
            handle = Handle()
            copy.copy(given["statefulProcessor"]).init(handle)
            key = _function_of(frame)
        except Exception as err:  # noqa: BLE001 - the user's code, where it was not meant to run
            self.notes.append(
                "The state variables of a transformWithState could not be asked for here: "
                f"{type(err).__name__}."
            )
        else:
            self.found[key] = handle.text
        return frame


class Handle:
    """Answers a processor's ``init``, and remembers the variables it makes."""

    def __init__(self) -> None:
        self._made: list[str] = []

    @property
    def text(self) -> str:
        """Return the variables by name, e.g. ``value total (n bigint); list seen (k string)``."""
        return "; ".join(sorted(self._made))

    def __getattr__(self, name: str) -> Any:
        sort = _GETTERS.get(name)
        if sort is None:
            return lambda *_, **__: None

        def get(*args: Any, **kwargs: Any) -> Any:
            self._made.append(_described(sort, args, kwargs))
            return _Nothing()

        return get


class _Nothing:
    """A state that nobody uses yet."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def _described(sort: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    name, *schemas = [*args, *(v for k, v in kwargs.items() if k != "ttlDurationMs")]
    lives = [kwargs.get("ttlDurationMs"), *(one for one in schemas if isinstance(one, int))]
    life = next(filter(None, lives), None)
    ttl = f" with a time to live of {life} ms" if life else ""
    # Of a map the first is the key's and the second the value's.
    told = " -> ".join(_schema(one) for one in schemas if not isinstance(one, int))
    return f"{sort} {name} ({told}){ttl}"


def _schema(schema: Any) -> str:
    simple = getattr(schema, "simpleString", None)
    text = simple() if callable(simple) else str(schema)
    return text.removeprefix("struct<").removesuffix(">") if text.startswith("struct<") else text


def _function_of(frame: Any) -> str:
    tree = read_tree(frame._jdf.queryExecution().analyzed().toJSON())
    for node in tree.walk():
        function = node.expression("functionExpr")
        if function is not None:
            return str(function.fields["resultId"]["id"])
    raise ValueError("the plan holds no function")
