"""Details that no caller of a function sees: docstring, annotations and log lines."""

from __future__ import annotations

import ast
import logging
import re
import time
import types
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
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
"""Statements after which no later one of their block runs."""
_CLOCKS: Final = frozenset(
    {"perf_counter", "monotonic", "process_time", "thread_time", "time"}
    | {"perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns", "time_ns"}
)
_OWN_NAMES: Final = frozenset({"__name__", "__qualname__", "__module__"})
_CONVERSION: Final = re.compile(r"%[^%a-zA-Z]*[a-zA-Z]")
_OF_TIMES: Final = (ast.Add, ast.Sub, ast.Mult)
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
        self._times: set[str] = set()

    def clean(self, node: Function) -> None:
        outer = self._bound
        arguments = _arguments(node.args)
        nodes = nodes_of(node)
        bare = {id(n.target) for n in nodes if isinstance(n, ast.AnnAssign) and not n.value}
        stores = Counter(n.id for n in nodes if is_store(n) and id(n) not in bare)
        self._locals = {*stores}
        self._containers = {*_containers(nodes, stores)}
        self._times = set()
        for name, value in _stored_once(node.body, stores):
            if self._is_time(value, self._times):
                self._times.add(name)
        if self._times and {*kept_names(nodes)} & {None, *self._times}:
            self._times = set()
        self._bound = {*outer, *(one.arg for one in arguments)}
        if self._drop:
            node.returns = None
            for one in arguments:
                one.annotation = None
        node.body = self._block(without_docstring(node.body))
        self._bound = outer
        if self._times:
            node.body = _without_unread(node.body, self._times)

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        bound = {*self._bound}
        for one in body:
            if (call := self._log_call(one)) is not None:
                if all(self._is_plain(argument) for argument in call.args):
                    continue
                _blank(call)
            new = self._statement(one)
            if new is None:
                continue
            kept += _flat(new)
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

    def _log_call(self, node: ast.stmt) -> ast.Call | None:
        """Return the call of a statement that logs or prints and does nothing else."""
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return None
        call = node.value
        function = call.func
        if isinstance(function, ast.Name) and function.id == "print":
            is_builtin = self._lookup("print") is None and "print" not in self._bound | self._locals
            return call if is_builtin and not call.keywords else None
        if not isinstance(function, ast.Attribute) or function.attr not in _LOG_METHODS:
            return None
        owner = function.value
        if not isinstance(owner, ast.Name) or owner.id in self._bound | self._locals:
            return None
        hints = all(
            k.arg == "exc_info" and isinstance(k.value, ast.Constant) for k in call.keywords
        )
        looks_up = len(call.args) > 1 and any(map(_names_items, call.args))
        is_log = hints and not looks_up and is_logger(self._lookup(owner.id))
        return call if is_log else None

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
        if isinstance(node, ast.Call | ast.BinOp):
            is_length = isinstance(node, ast.Call) and self._is_length(node)
            return is_length or self._is_time(node, self._times & self._bound)
        if isinstance(node, ast.Attribute):
            return self._is_own_name(node)
        if isinstance(node, ast.FormattedValue):
            return (
                node.format_spec is None
                and isinstance(node.value, ast.Name)
                and self._is_plain(node.value)
            )
        return False

    def _is_time(self, node: ast.AST, times: Collection[str]) -> bool:
        """
        Tell whether an expression reads a clock of Python, or computes with such times and numbers.

        :param times: Locals that hold a time.
        """
        match node:
            case ast.Constant(value=int() | float()):
                return True
            case ast.Name(id=name):
                return name in times
            case ast.BinOp(left=left, op=op, right=right):
                parts = (left, right)
                return isinstance(op, _OF_TIMES) and all(self._is_time(one, times) for one in parts)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=clock), args=[]):
                return (
                    clock in _CLOCKS
                    and owner not in self._bound | self._locals
                    and self._lookup(owner) is time
                    and type(getattr(time, clock)) is types.BuiltinFunctionType
                    and not node.keywords
                )
        return False

    def _is_own_name(self, node: ast.Attribute) -> bool:
        """Tell whether an attribute is the name that Python gives to a function."""
        return (
            node.attr in _OWN_NAMES
            and isinstance(node.value, ast.Name)
            and node.value.id not in self._bound | self._locals
            and type(self._lookup(node.value.id)) is types.FunctionType
        )

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


def _stored_once(body: list[ast.stmt], stores: Counter[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that one statement of a body alone binds, in order, each with its value."""
    for one in body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if stores[name] == 1:
                yield name, value


def _names_items(node: ast.expr) -> bool:
    """Tell whether a format reads items by their names, which a mapping may add then."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "%(" in node.value


def _blank(call: ast.Call) -> None:
    """
    Take out the texts of a log line whose other arguments stay.

    The conversions stay: each calls a method of its argument, which may have an effect.
    """
    begin = int(getattr(call.func, "attr", "") == "log")  # the level stays
    for place, one in enumerate(call.args[begin:], begin):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            call.args[place] = ast.Constant(value="".join(_CONVERSION.findall(one.value)))


def _flat(node: ast.stmt) -> list[ast.stmt]:
    """Return a statement without branches that decide nothing: after a return, or at the end of a ``try``."""
    match node:
        case ast.If(body=[*_, last], orelse=[_, *_] as rest) if isinstance(last, _LEAVING):
            node.orelse = []
            return [node, *rest]
        case ast.Try(body=body, handlers=[], orelse=[], finalbody=[ast.Pass()]):
            return body
    return [node]


def _without_unread(body: list[ast.stmt], times: Collection[str]) -> list[ast.stmt]:
    """Return statements without those that store a time that no other statement reads."""
    nodes = [node for one in body for node in nodes_of(one)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and not is_store(node)}
    unread = {*times} - read

    def is_kept(one: ast.stmt) -> bool:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)]):
                return name not in unread
        return True

    kept = [one for one in body if is_kept(one)] or [ast.Pass()]
    return kept if len(kept) == len(body) else _without_unread(kept, times)


def _is_known_handler(handler: logging.Handler) -> bool:
    top = type(handler).__module__.partition(".")[0]
    return not handler.filters and top in ("logging", "airflow_streaming", "_pytest")


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
