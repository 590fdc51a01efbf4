"""Statements of a module that define names and do nothing else."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from airflow_streaming.driver.code.code_cleaning import without_docstring
from airflow_streaming.driver.code.code_trees import nodes_of

_PLAIN_BASES: Final = frozenset({"object", "Exception", "ValueError", "RuntimeError", "Protocol"})
_OF_CLASSES: Final = frozenset({"staticmethod", "classmethod", "property"})
_CACHE: Final = "cache"
_DATACLASS: Final = "dataclass"
_VALUE: Final = "value"
_WRAPPER: Final = "wrapper"
"""A decorator that makes a function around the decorated one."""
_MAKER: Final = "maker of a wrapper"
_WRAPS: Final = "wraps"
_PURE: Final = {
    "functools.wraps": _WRAPS,
    "functools.lru_cache": _CACHE,
    "functools.cache": _CACHE,
    "dataclasses.dataclass": _DATACLASS,
}
_COMPUTED: Final = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple, ast.List, ast.Dict)
_MAKERS: Final = frozenset({"__init__", "__new__", "__post_init__", "__setattr__", "__getattr__"})
"""Methods that run when an object of a dataclass is made."""


def pure_calls(tree: ast.Module, bound_once: Collection[str]) -> dict[str, str]:
    """
    Return the calls and decorators of a module that do nothing but make a value, each with its kind.

    They are caches and dataclasses by their imported names, the module's own dataclasses, and its own
    decorators that define a function, and return it.
    """
    pure: dict[str, str] = {}
    for one in tree.body:
        pure |= {n: kind for n, kind in _imported(one) if n.partition(".")[0] in bound_once}
        match one:
            case ast.ClassDef(name=name) if _is_plain_class(one, pure) and one.decorator_list:
                if not _MAKERS.intersection(n.name for n in one.body if hasattr(n, "name")):
                    pure[name] = _VALUE
            case ast.FunctionDef(name=name, decorator_list=[]) if name in bound_once:
                if kind := _kind_of_decorator(one, pure):
                    pure[name] = kind
    return pure


def is_literal(
    one: ast.stmt,
    attribute: Sequence[str],
    definitions: Mapping[str, ast.stmt],
    *,
    is_table: bool = False,
) -> bool:
    """
    Tell whether a definition gives its name, or one attribute of it, by a literal.

    :param attribute: The attribute, or nothing.
    :param definitions: The definitions of its module.
    """
    value = getattr(one, "value", None)
    if isinstance(one, ast.ClassDef):
        fields = [part for part in one.body if isinstance(part, ast.Assign | ast.AnnAssign)]
        return bool(attribute) and all(map(_has_constant, fields))
    if isinstance(value, ast.Call):
        made = definitions.get(getattr(value.func, "id", ""))
        return isinstance(made, ast.ClassDef) and is_literal(made, attribute, definitions)
    if is_table:
        parts = [*value.keys, *value.values] if isinstance(value, ast.Dict) else [None]
        return all(isinstance(part, ast.Constant) for part in parts)
    return not attribute and _has_constant(one)


def _has_constant(one: ast.stmt) -> bool:
    match one:
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            operand = value.operand if isinstance(value, ast.UnaryOp) else value
            return value is None or isinstance(operand, ast.Constant)
    return False


def _imported(one: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the name and the kind of each pure function that a statement imports."""
    match one:
        case ast.ImportFrom(module="functools" | "dataclasses" as module, level=0, names=names):
            for alias in names:
                if kind := _PURE.get(f"{module}.{alias.name}"):
                    yield alias.asname or alias.name, kind
        case ast.Import(names=names):
            for alias in names:
                for full, kind in _PURE.items():
                    if full.partition(".")[0] == alias.name:
                        yield f"{alias.asname or alias.name}.{full.partition('.')[2]}", kind


def _kind_of_decorator(node: ast.FunctionDef, pure: Mapping[str, str], depth: int = 0) -> str:
    """Return the kind of a function that defines a function and returns it; empty for any other."""
    match without_docstring(node.body):
        case [ast.FunctionDef(name=inner) as made, ast.Return(value=ast.Name(id=returned))] if (
            inner == returned and _is_plain_function(made, given=(node.args, pure))
        ):
            pass
        case _:
            return ""
    if not made.decorator_list and _kind_of_decorator(made, pure, depth + 1) == _WRAPPER:
        return "" if depth else _MAKER
    return _WRAPPER if len(node.args.args) == 1 else ""


def _is_wraps(decorator: ast.expr, arguments: ast.arguments, pure: Mapping[str, str]) -> bool:
    match decorator:
        case ast.Call(func=function, args=[ast.Name(id=name)], keywords=[]):
            own = [one.arg for one in arguments.args]
            return own == [name] and pure.get(ast.unparse(function)) == _WRAPS
    return False


def _is_pure(decorator: ast.expr, pure: Mapping[str, str], kind: str) -> bool:
    called = decorator
    if isinstance(decorator, ast.Call):
        given = [*decorator.args, *(one.value for one in decorator.keywords)]
        if not all(_is_computed(one, frozenset()) for one in given):
            return False
        called = decorator.func
    return pure.get(ast.unparse(called)) == kind


def bound_once_in(
    tree: ast.Module, stored: Iterable[str], pure: Mapping[str, str] = MappingProxyType({})
) -> set[str]:
    """
    Return the names that one statement of a module alone may bind.

    :param stored: Names that functions of the module bind in it.
    :param pure: See ``pure_calls``.
    """
    counts: Counter[str] = Counter(stored)
    for one in tree.body:
        bound = {*(defined_by(one, pure) or ())}
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound |= {
                node.id
                for node in nodes_of(one)
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
            }
        elif one.decorator_list:
            bound.add(one.name)
        counts.update(bound)
    return {name for name, count in counts.items() if count == 1}


def defined_by(one: ast.stmt, pure: Mapping[str, str] = MappingProxyType({})) -> list[str] | None:
    """Return the names that a statement defines and does nothing else; ``None`` if it does more."""
    match one:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            # The modules themselves count by the imports.
            return (
                None
                if names[0].name == "*"
                else [(n.asname or n.name).split(".")[0] for n in names]
            )
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [one.name] if _is_plain_function(one, pure=pure) else None
        case ast.ClassDef():
            return [one.name] if _is_plain_class(one, pure) else None
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            is_plain = _is_pure(call, pure, _VALUE) or _is_plain_value(call)
            return [name] if is_plain else None
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [name] if _is_plain_value(value) else None
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return [name] if value is None or _is_plain_value(value) else None
        case ast.If(
            test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=[]
        ):
            return []
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant("__main__")]
            ),
            orelse=[],
        ):
            return []
    return None


def _is_plain_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    decorators: frozenset[str] = frozenset(),
    pure: Mapping[str, str] = MappingProxyType({}),
    given: tuple[ast.arguments, Mapping[str, str]] | None = None,
) -> bool:
    """
    Tell whether the definition of a function does nothing else.

    :param decorators: Names of further decorators that do nothing else.
    :param given: Arguments of the decorator that defines it, and the pure calls of the module.
    """
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return all(map(_is_plain_value, defaults)) and all(
        getattr(one, "id", "") in decorators
        or _is_pure(one, pure, _CACHE)
        or _is_wrapping(one, pure)
        or (given is not None and _is_wraps(one, *given))
        for one in node.decorator_list
    )


def _is_wrapping(decorator: ast.expr, pure: Mapping[str, str]) -> bool:
    if isinstance(decorator, ast.Call):
        return _is_pure(decorator, pure, _MAKER)
    return _is_pure(decorator, pure, _WRAPPER)


def _is_plain_class(node: ast.ClassDef, pure: Mapping[str, str] = MappingProxyType({})) -> bool:
    if node.keywords or not all(_is_pure(one, pure, _DATACLASS) for one in node.decorator_list):
        return False
    if not all(isinstance(one, ast.Name) and one.id in _PLAIN_BASES for one in node.bases):
        return False
    return all(
        _is_plain_function(one, _OF_CLASSES, pure)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        else defined_by(one) is not None and not isinstance(one, ast.If)
        for one in node.body
    )


def _is_plain_value(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(map(_is_plain_value, parts))
        case ast.Dict(keys=keys, values=values):
            return all(isinstance(k, ast.Constant) for k in keys) and all(
                map(_is_plain_value, values)
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logging"), attr="getLogger")):
            return not node.keywords and all(map(_is_plain_value, node.args))
    return _is_computed(node, frozenset())


def _is_computed(node: ast.AST, names: frozenset[str]) -> bool:
    """
    Tell whether an expression computes a value from constants, and does nothing else.

    :param names: Variables of comprehensions around it, which hold such values.
    """
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.ListComp() | ast.DictComp():
            for one in node.generators:
                is_plain = all(isinstance(n, ast.Name | ast.Tuple) for n in nodes_of(one.target))
                if one.is_async or not is_plain or not _is_computed(one.iter, names):
                    return False
                names |= {n.id for n in nodes_of(one.target) if isinstance(n, ast.Name)}
            tests = [test for one in node.generators for test in one.ifs]
            made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            return all(_is_computed(one, names) for one in (*made, *tests))
        case ast.Call(func=ast.Attribute(value=ast.Dict() as table, attr="items"), args=[]):
            return not node.keywords and _is_computed(table, names)
    is_known = isinstance(node, _COMPUTED) and None not in getattr(node, "keys", ())
    return is_known and all(
        _is_computed(one, names) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)
    )
