"""Calls of simple helpers of one module, replaced by the helpers' bodies."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_streaming.driver.code.code_cleaning import Lookup, cleaned
from airflow_streaming.driver.code.code_constants import Origin, is_lookup, never_known
from airflow_streaming.driver.code.code_imports import codes_of
from airflow_streaming.driver.code.code_locals import NAMES_MATTER
from airflow_streaming.driver.code.code_trees import (
    Function,
    as_function,
    copied,
    identifiers_in,
    is_store,
    node_of_code,
    nodes_of,
    with_parts,
)

_MOST_INLINED: Final = 50
_CACHED: Final = type(functools.lru_cache(lambda: None))

_UNUSUAL: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Flags of code: several arguments in one, a generator, a coroutine."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_VISITED_APART: Final = (ast.stmt, ast.Lambda, *_COMPREHENSIONS)
"""Statements within a statement, and expressions whose names may have other values when they run."""

_NOT_INLINED: Final = (
    *_SCOPES,
    *_COMPREHENSIONS,
    ast.Lambda,
    ast.Global,
    ast.Nonlocal,
    ast.Import,
    ast.ImportFrom,
    ast.NamedExpr,
    ast.Match,
    ast.Delete,
)


class Inlining:
    """
    Replaces calls of helpers by their bodies.

    :param root: The function; its helpers are in the same module.
    """

    def __init__(
        self, root: types.FunctionType, lookup: Lookup, origin: Origin = never_known
    ) -> None:
        self._root, self._lookup, self._origin = root, lookup, origin
        code = root.__code__
        self.taken = {
            name for one in codes_of(code) for name in (*one.co_varnames, *one.co_cellvars)
        }
        self._sure = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        self._sure -= {*code.co_cellvars}
        self._shared = {*code.co_cellvars, *code.co_freevars}
        self._within: list[types.CodeType] = [code]
        self._count = 0
        self.values: dict[str, Any] = {}
        self.helpers: list[Function] = []

    def body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return _without_last_name(self._block(body))

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            found += self._statement(one)
            if isinstance(one, ast.Assign):
                stored = {node.id for node in nodes_of(one) if is_store(node)}
                self._sure |= stored - self._shared
        return found

    def _statement(self, one: ast.stmt) -> list[ast.stmt]:
        value = getattr(one, "value", None)
        if isinstance(one, ast.Return | ast.Expr | ast.Assign) and isinstance(value, ast.Call):
            helper = self._helper(value)
            if helper is not None:
                replaced = self._replaced(one, helper)
                if replaced is not None:
                    return replaced
        for field, inner in ast.iter_fields(one):
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                sure = {*self._sure}
                if isinstance(one, ast.For) and field == "body":
                    self._sure |= {n.id for n in nodes_of(one.target) if is_store(n)} - self._shared
                setattr(one, field, self._block(inner))
                self._sure = sure
        if not isinstance(one, _SCOPES):
            with_parts(one, self._expression)
        return [one]

    def _replaced(self, one: ast.stmt, body: list[ast.stmt]) -> list[ast.stmt] | None:
        last = body[-1] if body else None
        returns = [n for n in _own_nodes(body) if isinstance(n, ast.Return)]
        if isinstance(one, ast.Return):
            is_ended = isinstance(last, ast.Return | ast.Raise)
            return body if is_ended else [*body, ast.Return(value=ast.Constant(value=None))]
        if isinstance(one, ast.Expr) and not returns:
            return body
        if isinstance(last, ast.Return) and last.value is not None and returns == [last]:
            if isinstance(one, ast.Assign):
                return [*body[:-1], ast.Assign(targets=one.targets, value=last.value, lineno=0)]
            return [*body[:-1], ast.Expr(value=last.value)]
        return None

    def _expression(self, node: ast.AST) -> ast.AST:
        """Return an expression with the values of helpers that are one expression in place of their calls."""
        if isinstance(node, _VISITED_APART):
            return node
        if isinstance(node, ast.Call):
            body = self._helper(node, is_one=True)
            if body and isinstance(body[0], ast.Return) and body[0].value is not None:
                return body[0].value
        return with_parts(node, self._expression)

    def _helper(self, call: ast.Call, *, is_one: bool = False) -> list[ast.stmt] | None:
        if not isinstance(call.func, ast.Name) or call.keywords or call.func.id in self.taken:
            return None
        called = self._lookup(call.func.id)
        helper = called.__wrapped__ if type(called) is _CACHED else called
        if type(helper) is not types.FunctionType or not self._is_simple(helper, call):
            return None
        node = node_of_code(helper.__code__)
        if not isinstance(node, ast.FunctionDef) or self._count >= _MOST_INLINED:
            return None
        found = cleaned(as_function(node), helper.__globals__.get)
        if helper is called:
            is_same = not node.decorator_list
        else:
            is_same = len(node.decorator_list) == 1 and is_lookup(found, helper, self._origin)
        if not is_same or (is_one and not _is_one_return(found.body)):
            return None
        found.decorator_list = []
        nodes = nodes_of(found)
        if any(isinstance(one, _NOT_INLINED) for one in _own_nodes(found.body)):
            return None
        if not NAMES_MATTER.isdisjoint(identifiers_in(nodes)):
            return None
        return self._in_place(call, helper, node, found, is_one=is_one)

    def _in_place(
        self,
        call: ast.Call,
        helper: types.FunctionType,
        node: ast.FunctionDef,
        found: Function,
        *,
        is_one: bool,
    ) -> list[ast.stmt] | None:
        """Return the body of a helper with the arguments of a call; ``None`` where names collide."""
        nodes = nodes_of(found)
        self._count += 1
        given = dict(zip((one.arg for one in found.args.args), call.args, strict=True))
        stored = {one.id for one in nodes if is_store(one)}
        stored |= {one.name for one in nodes if isinstance(one, ast.ExceptHandler) and one.name}
        if stored & given.keys():
            return None
        names = {one.id for one in nodes if isinstance(one, ast.Name)}
        if (names - stored - given.keys()) & self.taken:
            return None  # a global of the helper, and a local of the caller
        known = {
            n: helper.__globals__[n]
            for n in names - stored - given.keys()
            if n in helper.__globals__
        }
        if any(
            value is not self._root.__globals__.get(name, value) for name, value in known.items()
        ):
            return None
        self.values |= known
        self.helpers.append(node)
        return self._placed(found, given, stored, helper, is_one=is_one)

    def _placed(
        self,
        found: Function,
        given: Mapping[str, ast.expr],
        stored: set[str],
        helper: types.FunctionType,
        *,
        is_one: bool,
    ) -> list[ast.stmt]:
        fresh = {name: f"{name} {self._count}" for name in stored}
        for one in nodes_of(found):
            if isinstance(one, ast.ExceptHandler) and one.name:
                one.name = fresh[one.name]
        self.taken |= {*fresh.values()}

        def place(node: ast.AST) -> ast.AST:
            if not isinstance(node, ast.Name):
                return with_parts(node, place)
            if node.id in given:
                return copied(given[node.id])
            return ast.Name(id=fresh.get(node.id, node.id), ctx=node.ctx)

        body = [with_parts(one, place) for one in found.body]
        self._within.append(helper.__code__)
        placed = (
            [with_parts(one, self._expression) for one in body] if is_one else self._block(body)
        )
        self._within.pop()
        return placed

    def _is_simple(self, helper: types.FunctionType, call: ast.Call) -> bool:
        code, root = helper.__code__, self._root
        of_one_module = helper.__globals__ is root.__globals__ or (
            helper.__module__ == root.__module__ and code.co_filename == root.__code__.co_filename
        )
        return (
            of_one_module
            and code not in self._within
            and not helper.__dict__
            and not code.co_freevars
            and not code.co_kwonlyargcount
            and not code.co_flags & _UNUSUAL
            and code.co_argcount == len(call.args)
            and all(self._is_atom(one) for one in call.args)
        )

    def _is_atom(self, node: ast.expr) -> bool:
        """Tell whether an argument has one value for as long as the helper runs."""
        return isinstance(node, ast.Constant) or (
            isinstance(node, ast.Name) and node.id in self._sure
        )


def _is_one_return(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Return)


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for one in body:
        yield from nodes_of(one)


def _without_last_name(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body whose last two statements ``x = value; return x`` are one."""
    if (
        len(body) < 2
        or not isinstance(body[-1], ast.Return)
        or not isinstance(body[-2], ast.Assign)
    ):
        return body
    last, before = body[-1], body[-2]
    if not isinstance(last.value, ast.Name) or len(before.targets) != 1:
        return body
    target = before.targets[0]
    if not isinstance(target, ast.Name) or target.id != last.value.id:
        return body
    lasting = (
        ast.Global,
        ast.Nonlocal,
        ast.Lambda,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.GeneratorExp,
    )
    if any(isinstance(node, lasting) for node in _own_nodes(body)):
        return body
    return [*body[:-2], ast.Return(value=before.value)]
