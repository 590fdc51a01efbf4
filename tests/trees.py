"""Expressions of plans from text, for tests: ``trees("k, (v + 1) AS w")``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from airflow_streaming.model.plan.schema import Column, type_name
from airflow_streaming.model.plan.tree import ALIAS, CAST, FIELD, LITERAL, ColumnRef, Expr, Tree
from airflow_streaming.model.plan.variables import StateVariable
from airflow_streaming.model.spark.plan import STEP_KINDS, StepPlan

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>'(?:[^']|'')*')|(?P<name>`(?:[^`]|``)*`)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<word>[^\W\d]\w*)|(?P<symbol><=>|[<>]=|\S))"
)
_NODES: Final = {"project": "Project", "filter": "Filter", "generate": "Generate", "union": "Union"}
_NODES_OF_MAPS: Final = "MapInPandas"
_TYPES: Final = ("interval", "date", "timestamp")
_MEASURES: Final = {"window": ("length", "slide", "start")}
_UNITS: Final = ("second", "seconds", "minute", "minutes", "day", "days")


def trees(text: str) -> tuple[Tree, ...]:
    """Return the expressions of a text, separated by commas."""
    return tuple(_Parser(text).items())


def tree(text: str) -> Tree:
    """Return one expression."""
    (found,) = trees(text)
    return found


def a_step(step: str, text: str, below: int = 0) -> StepPlan:
    """Return a step: its expressions, of a join its type first, of any other step its node first."""
    assert step in {*STEP_KINDS.values(), "project", "other", "table"}
    if step == "map":
        return StepPlan(step=step, tree=Expr(_NODES_OF_MAPS, trees(text)), below=below)
    if step in _NODES and text != "Union":
        return StepPlan(step=step, tree=Expr(_NODES[step], trees(text)), below=below)
    first, *rest = trees(text)
    name = first.name if isinstance(first, ColumnRef) else str(getattr(first, "op", ""))
    options = dict(getattr(first, "options", {}))
    if step == "join":
        return StepPlan(step=step, tree=Expr("Join", rest, options={"type": name}), below=below)
    return StepPlan(step=step, tree=Expr(name, rest, options=options), below=below)


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = [
            (str(found.lastgroup), found[str(found.lastgroup)])
            for found in _TOKEN.finditer(text.strip())
        ]
        self._at = 0

    def items(self, end: str = "") -> Iterator[Tree]:
        while self._at < len(self._tokens) and self._next() != end:
            yield self._item()
            self._take(",")

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *texts: str) -> bool:
        if self._next() not in texts:
            return False
        self._at += 1
        return True

    def _pop(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _item(self) -> Tree:
        found = self._operation()
        if self._take("AS"):
            kind, name = self._pop()
            return Expr(ALIAS, [found], options={"name": _plain(kind, name)})
        return found

    def _operation(self) -> Tree:
        found = self._part()
        while self._next() in ("+", "-", "*", "/", "%", "=", "<", ">", "<=", ">=", "AND", "OR"):
            _, symbol = self._pop()
            found = Expr(symbol, [found, self._part()])
        return found

    def _part(self) -> Tree:
        found = self._leaf()
        while True:
            if self._take("."):
                kind, name = self._pop()
                key = "ordinal" if kind == "number" else "name"
                found = Expr(FIELD, [found], options={key: _plain(kind, name)})
            elif self._take("FILTER"):
                found = Expr("aggregate", [found, self._condition()])
            elif self._next() == "[":
                found = _with_options(found, self._details())
            else:
                return found

    def _condition(self) -> Tree:
        assert self._take("(")
        assert self._take("WHERE")
        found = self._operation()
        assert self._take(")")
        return found

    def _details(self) -> dict[str, str]:
        """Read details such as ``['schema=...; options.mode=FAILFAST']``."""
        assert self._take("[")
        _, quoted = self._pop()
        assert self._take("]")
        pairs = (part.partition("=") for part in _plain("quoted", quoted).split("; "))
        return {key: value for key, _, value in pairs}

    def _leaf(self) -> Tree:
        kind, text = self._pop()
        if kind == "quoted":
            return Expr(LITERAL, type="string", options={"value": _plain(kind, text)})
        if kind == "number":
            of = "double" if "." in text else "int"
            return Expr(LITERAL, type=of, options={"value": text})
        if text == "(":
            found = self._operation()
            assert self._take(")"), text
            return found
        if kind == "name":
            return self._column(_plain(kind, text))
        if text == "NULL":
            return Expr(LITERAL, type="void")
        if text in ("true", "false"):
            return Expr(LITERAL, type="boolean", options={"value": text})
        if self._take("("):
            return self._call(text)
        if text in _TYPES and self._at < len(self._tokens):
            words = [self._pop()[1]]
            while self._next() in _UNITS:
                words.append(self._pop()[1])
            return Expr(LITERAL, type=text, options={"value": " ".join(words)})
        return self._column(text)

    def _column(self, name: str) -> Tree:
        if self._take("@"):
            return ColumnRef(name, int(self._pop()[1]))
        return ColumnRef(name)

    def _call(self, name: str) -> Tree:
        if name == "cast":
            found = self._operation()
            assert self._take("as")
            return Expr(CAST, [found], type=self._type())
        args: list[Tree] = []
        measures: dict[str, str] = {}
        while not self._take(")"):
            if name in _MEASURES and args:
                key = _MEASURES[name][len(measures)]
                measures[key] = f"{self._pop()[1]} {self._pop()[1]}"
            elif name == "session_window" and args:
                value = f"{self._pop()[1]} {self._pop()[1]}"
                args.append(Expr(LITERAL, type="interval", options={"value": value}))
            else:
                args.append(self._item())
            self._take(",")
        return Expr(name, args, options=measures)

    def _type(self) -> str:
        """Read a type and the bracket behind it."""
        found, depth = "", 1
        while depth:
            _, told = self._pop()
            depth += {"(": 1, ")": -1}.get(told, 0)
            found += told
        return found[:-1]


def _with_options(found: Tree, options: dict[str, str]) -> Tree:
    if isinstance(found, Expr):
        return Expr(found.op, found.args, type=found.type, options={**found.options, **options})
    assert isinstance(found, ColumnRef)
    return Expr(found.name, options=options)


def _plain(kind: str, text: str) -> str:
    if kind == "quoted":
        return text[1:-1].replace("''", "'")
    return text[1:-1].replace("``", "`") if kind == "name" else text


def columns(text: str) -> tuple[Column, ...]:
    """Return columns of a text like ``k string, n bigint not null``."""
    found = (part.split(" ", 1) for part in re.split(r",(?![^<(]*[>)])\s*", text) if part)
    return tuple(
        Column(
            name=name,
            type=type_name(re.sub(" not null", "", "".join(rest), flags=re.IGNORECASE)),
            nullable="not null" not in "".join(rest).lower(),
        )
        for name, *rest in found
    )


def variables(text: str) -> tuple[StateVariable, ...]:
    """Return variables of a text like ``value total (n bigint); list seen (k string)``."""
    return tuple(variable(part) for part in text.split("; ") if part)


def variable(text: str) -> StateVariable:
    """Return a variable of a text like ``map m (k string -> n int) with a time to live of 9 ms``."""
    found = re.fullmatch(r"(\w+) (\S+) \((.*)\)(?: with a time to live of (\d+) ms)?", text)
    assert found, text
    kind, name, schema, ttl = found.groups()
    key, _, value = schema.rpartition(" -> ")
    return StateVariable(
        kind=kind,
        name=name,
        key=columns(key),
        value=columns(value),
        has_ttl=ttl is not None,
        ttl_ms=int(ttl or 0),
    )


def operator_fields(told: dict[str, Any]) -> dict[str, Any]:
    """Return changes of an operator, texts as expressions."""
    found = dict(told)
    for name in ("key_expressions", "values", "results", "pushed"):
        if name in found:
            found[name] = tuple(one for text in found[name] for one in trees_of(text))
    if isinstance(found.get("condition"), str):
        found["condition"] = tree(found["condition"]) if found["condition"] else None
    if isinstance(found.get("gap"), str):
        found["gap"] = Expr(LITERAL, type="interval", options={"value": found["gap"]})
    for text, name in (("state_schema", "state_columns"), ("output_schema", "output_columns")):
        if text in found and " (" not in found[text]:
            found[name] = columns(found.pop(text))
    if "state_schema" in found:
        found["variables"] = variables(found.pop("state_schema"))
    if "outputs" in found:
        found["output_names"] = tuple(tuple(names.split(",")) for names in found.pop("outputs"))
    return found


def trees_of(text: Tree | str) -> tuple[Tree, ...]:
    return trees(text) if isinstance(text, str) else (text,)
