"""Details that no caller of a function sees: docstring, annotations and log lines."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeAlias

from airflow_streaming.driver.code.code_locals import kept_names
from airflow_streaming.driver.code.code_trees import Function, is_store, name_of, nodes_of

Lookup: TypeAlias = Callable[[str], Any]
"""Returns the value of a name that is not local, ``None`` without one."""
_LOG_METHODS: Final = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log"}
)
_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of statements with statements in them."""
_DISPLAYS: Final = (
    *(ast.List, ast.Dict, ast.Set, ast.Tuple),
    *(ast.ListComp, ast.DictComp, ast.SetComp),
)
"""Expressions whose value is a container of Python's own."""
_HINTED: Final = frozenset(
    {
        "staticmethod",
        "classmethod",
        "property",
        "abstractmethod",
        "cached_property",
        "contextmanager",
    }
    | {"lru_cache", "cache", "wraps", "udf", "pandas_udf"}
)
"""Decorators whose result reads no annotations when it is called."""


def cleaned(node: Function, lookup: Lookup) -> Function:
    """
    Return a function without docstring, annotations and log lines, changed in place.

    Annotations stay where a decorator may read them.
    """
    hinted = all(name_of(one) in _HINTED for one in node.decorator_list)
    _Cleaner(lookup, drop_hints=hinted).clean(node)
    return node


def is_logger(value: Any) -> bool:
    """Tell whether a value is Python's own logger, so that its calls change no result."""
    if value is not logging and type(value) not in (logging.Logger, logging.RootLogger):
        return False
    logger: logging.Logger | None = logging.getLogger() if value is logging else value
    while logger is not None:
        if logger.filters or not all(map(_is_known_handler, logger.handlers)):
            return False
        logger = logger.parent
    return True


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its first statement, where this is a text."""
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[1:] if isinstance(first.value.value, str) else body
    return body


class _Cleaner:
    """Cleans statements; no expression has a detail that is left out."""

    def __init__(self, lookup: Lookup, *, drop_hints: bool) -> None:
        self._lookup, self._drop = lookup, drop_hints
        self._bound: set[str] = set()

    def clean(self, node: Function) -> None:
        outer = self._bound
        arguments = _arguments(node.args)
        nodes = nodes_of(node)
        bare = {id(n.target) for n in nodes if isinstance(n, ast.AnnAssign) and not n.value}
        stores = Counter(n.id for n in nodes if is_store(n) and id(n) not in bare)
        self._locals = {*stores}
        self._containers = {*_containers(nodes, stores)}
        self._bound = {*outer, *(one.arg for one in arguments)}
        if self._drop:
            node.returns = None
            for one in arguments:
                one.annotation = None
        node.body = self._block(without_docstring(node.body))
        self._bound = outer

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        bound = {*self._bound}
        for one in body:
            if self._is_log_line(one):
                continue
            new = self._statement(one)
            if new is None:
                continue
            kept.append(new)
            if isinstance(one, ast.Assign | ast.AnnAssign):
                self._bound |= {n.id for n in nodes_of(one) if is_store(n)}
        self._bound = bound
        return kept or [ast.Pass()]

    def _statement(self, node: ast.stmt) -> ast.stmt | None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._inner(node)
            case ast.ClassDef():
                return node  # its annotations may be fields
            case ast.AnnAssign(target=ast.Name()):
                return self._annotated(node)
        self._within(node)
        return node

    def _within(self, node: ast.AST) -> None:
        for field in _BLOCKS:
            inner = getattr(node, field, None)
            if isinstance(inner, list) and inner:
                if isinstance(inner[0], ast.stmt):
                    setattr(node, field, self._block(inner))
                else:
                    for one in inner:
                        self._within(one)

    def _inner(self, node: Function) -> Function:
        inner = _Cleaner(self._lookup, drop_hints=not node.decorator_list)
        inner._bound = self._bound - {one.id for one in nodes_of(node) if is_store(one)}
        inner.clean(node)
        return node

    def _annotated(self, node: ast.AnnAssign) -> ast.stmt | None:
        # In a function they are not evaluated, but an annotated name is local.
        if node.value is None:
            return None if name_of(node.target) in self._locals else node
        return ast.Assign(targets=[node.target], value=node.value, lineno=0)

    def _is_log_line(self, node: ast.stmt) -> bool:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        call = node.value
        if not all(self._is_plain(one) for one in call.args):
            return False
        function = call.func
        if isinstance(function, ast.Name) and function.id == "print":
            is_builtin = self._lookup("print") is None and "print" not in self._bound | self._locals
            return is_builtin and not call.keywords
        if not isinstance(function, ast.Attribute) or function.attr not in _LOG_METHODS:
            return False
        owner = function.value
        if not isinstance(owner, ast.Name) or owner.id in self._bound | self._locals:
            return False
        hints = all(
            k.arg == "exc_info" and isinstance(k.value, ast.Constant) for k in call.keywords
        )
        return hints and is_logger(self._lookup(owner.id))

    def _is_plain(self, node: ast.AST) -> bool:
        """Tell whether an argument of a log line has no effect and cannot fail."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id in self._bound or (
                node.id not in self._locals and self._lookup(node.id) is not None
            )
        if isinstance(node, ast.JoinedStr):
            return all(self._is_plain(one) for one in node.values)
        if isinstance(node, ast.Call):
            return self._is_length(node)
        if isinstance(node, ast.FormattedValue):
            return (
                node.format_spec is None
                and isinstance(node.value, ast.Name)
                and self._is_plain(node.value)
            )
        return False

    def _is_length(self, call: ast.Call) -> bool:
        match call:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                return (
                    name in self._containers & self._bound
                    and "len" not in self._bound | self._locals
                    and self._lookup("len") is None
                )
        return False


def _containers(nodes: Collection[ast.AST], stores: Counter[str]) -> Iterator[str]:
    """
    Yield the locals that hold nothing but containers of Python.

    :param stores: Number of statements that bind each local.
    """
    found: Counter[str] = Counter()
    kept = {*kept_names(nodes)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] += isinstance(value, _DISPLAYS)
            case ast.ExceptHandler(name=str(name)):
                kept.add(name)
    if None not in kept:
        yield from (n for n, count in found.items() if count == stores[n] and n not in kept)


def _is_known_handler(handler: logging.Handler) -> bool:
    top = type(handler).__module__.partition(".")[0]
    return not handler.filters and top in ("logging", "airflow_streaming", "_pytest")


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
