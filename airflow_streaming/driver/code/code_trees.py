"""Copies of syntax trees, their nodes, and the source of a function's code."""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

from airflow_streaming.driver.code.code_imports import codes_of

Node = TypeVar("Node", bound=ast.AST)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_WITHOUT_NODES: Final = frozenset(
    {"ctx", "op", "ops", "id", "arg", "attr", "module", "level", "asname", "rest", "kwd_attrs"}
    | {"kind", "simple", "conversion", "is_async", "type_comment"}
)
"""Fields of nodes without statements, expressions and their parts."""
_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    kind: tuple(name for name in kind._fields if name not in _WITHOUT_NODES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
} | {ast.Constant: ()}
"""By kind of node, its fields that may hold other nodes."""


@lru_cache(maxsize=4096)
def node_of_code(code: types.CodeType) -> Function | ast.Lambda | None:
    """Return the syntax tree of a function's code; ``None`` without a source that compiles to it."""
    found = _file(code.co_filename)
    if found is None or code not in found.codes:
        return None
    nodes = found.nodes.get((code.co_name, code.co_firstlineno), ())
    return nodes[0] if len(nodes) == 1 else None


def as_function(node: Function | ast.Lambda) -> Function:
    """Return a copy of a function's tree, of a lambda as a function that returns its value."""
    if isinstance(node, ast.Lambda):
        arguments = copied(node.args)
        body: list[ast.stmt] = [ast.Return(value=copied(node.body))]
        return ast.FunctionDef(name="<lambda>", args=arguments, body=body, decorator_list=[])
    found = copied(node)
    found.name = ""
    return found


def copied(node: Node) -> Node:
    """Return a copy of a tree that shares the operators, faster than ``copy.deepcopy``."""
    kind = node.__class__
    found = kind.__new__(kind)
    values = found.__dict__
    values.update(node.__dict__)
    for name in _PARTS[kind]:
        value = values.get(name)
        if value.__class__ is list:
            values[name] = [copied(one) if isinstance(one, ast.AST) else one for one in value]
        elif isinstance(value, ast.AST):
            values[name] = copied(value)
    return found


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a tree in the order of ``ast.walk``, without operators and contexts."""
    nodes = [tree]
    for node in nodes:
        values = node.__dict__
        for name in _PARTS[node.__class__]:
            value = values.get(name)
            if value.__class__ is list:
                nodes += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def texts_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield each constant that is a text, with the text."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def identifiers_of(tree: ast.AST) -> Iterator[str]:
    """Yield every name in a tree."""
    return identifiers_in(nodes_of(tree))


def identifiers_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name: variables, attributes, imports, and texts that are a name."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Call):
            if not node.args:
                yield f"{getattr(node.func, 'id', '')}()"  # vars() and dir() see locals, vars(x) does not
            elif getattr(node.func, "attr", "") == "query" and _may_name_locals(node.args[0]):
                yield "query(@)"
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (part for part in node.value.split(".") if part.isidentifier())


def name_of(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        return name_of(decorator.func)
    return str(getattr(decorator, "attr", None) or getattr(decorator, "id", ""))


def is_store(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed([*_children(one)])


def with_parts(node: Node, replace: Callable[[ast.AST], ast.AST]) -> Node:
    """Return a node after its direct parts are replaced."""
    values = node.__dict__
    for name in _PARTS[node.__class__]:
        value = values.get(name)
        if value.__class__ is list:
            value[:] = [replace(one) if isinstance(one, ast.AST) else one for one in value]
        elif isinstance(value, ast.AST):
            values[name] = replace(value)
    return node


class _File(NamedTuple):
    codes: frozenset[types.CodeType]
    nodes: Mapping[tuple[str, int], tuple[Function | ast.Lambda, ...]]


@lru_cache(maxsize=512)
def _parsed(name: str, text: str) -> _File | None:
    try:
        tree = ast.parse(text)
        whole = compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    nodes: dict[tuple[str, int], tuple[Function | ast.Lambda, ...]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Lambda):
            key = ("<lambda>", node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            key = (node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)]))
        else:
            continue
        nodes[key] = (*nodes.get(key, ()), node)
    return _File(frozenset(codes_of(whole)), nodes)


def _file(name: str) -> _File | None:
    linecache.checkcache(name)  # the file may have changed since the last read
    lines = linecache.getlines(name)
    return _parsed(name, "".join(lines)) if lines else None


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name in _PARTS[node.__class__]:
        value = node.__dict__.get(name)
        if value.__class__ is list:
            yield from (one for one in value if isinstance(one, ast.AST))
        elif isinstance(value, ast.AST):
            yield value


def _may_name_locals(query: ast.expr) -> bool:
    """Tell whether the text of a query in pandas may name locals."""
    return not isinstance(query, ast.Constant) or "@" in str(query.value)
