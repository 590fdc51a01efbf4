"""
Numbers of a function: named ones that nothing can change while the code runs, and what constants compute.

``MINIMUM`` of a module, ``Limits.review`` of a class and ``LIMITS.review`` of a frozen dataclass are one number
if they have one value: a constant may move and get another name.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from airflow_streaming.driver.code.code_imports import file_of, is_users
from airflow_streaming.driver.code.code_trees import Function, nodes_of, with_parts

Origin: TypeAlias = Callable[..., str]
"""Returns the module that defines a name of a module by a literal; empty where code may bind or change it."""
_NUMBERS: Final = (bool, int, float, type(None))
_PLAIN: Final = (*_NUMBERS, str, bytes)
_FOLDED: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_ATTRIBUTE_HOOKS: Final = ("__getattribute__", "__getattr__")


def never_known(*_: str) -> str:
    """Treat every name as changeable."""
    return ""


def with_numbers(
    body: list[ast.stmt], function: types.FunctionType, taken: Collection[str], origin: Origin
) -> list[ast.stmt]:
    """
    Return the statements of a function with numbers in place of their names, changed in place.

    :param taken: Names of locals, in the function and within it.
    """
    if any(isinstance(node, ast.ClassDef) for one in body for node in nodes_of(one)):
        return body  # its body has names of its own
    names = _Numbers(function, {*taken, *function.__code__.co_freevars}, origin)
    return [with_parts(one, names.replaced) for one in body]


def is_lookup(tree: Function, helper: types.FunctionType, origin: Origin) -> bool:
    """
    Tell whether a function looks its argument up in a fixed table and does nothing else.

    Its result depends on nothing but the equality of keys, so a cache of its results changes nothing.
    """
    match tree.body:
        case [
            ast.Return(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=table), attr="get"),
                    args=[ast.Name(id=key), *rest],
                    keywords=[],
                )
            )
        ]:
            pass
        case _:
            return False
    content = helper.__globals__.get(table)
    return (
        [key] == [one.arg for one in tree.args.args]
        and type(content) is dict
        and all(type(one) in _PLAIN for pair in content.items() for one in pair)
        and bool(origin(helper.__module__, table, is_table=True))
        and all(_is_plain(one, helper, origin) for one in rest)
    )


class _Numbers:
    def __init__(
        self, function: types.FunctionType, taken: Collection[str], origin: Origin
    ) -> None:
        self._function, self._taken, self._origin = function, taken, origin

    def replaced(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name not in self._taken:
                return self._number(node, self._value(name), name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Load()) if (
                name not in self._taken
            ):
                held = _attribute_of(self._value(name), attribute)
                return self._number(node, held, name, attribute)
            case ast.Compare(ops=ops) if any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                return node  # an object, not its value
            case ast.BinOp():
                return _folded(with_parts(node, self.replaced))
        return with_parts(node, self.replaced)

    def _value(self, name: str) -> Any:
        return self._function.__globals__.get(name, ...)

    def _number(self, node: ast.AST, value: Any, *names: str) -> ast.AST:
        if type(value) not in _NUMBERS or (isinstance(value, float) and math.isnan(value)):
            return node
        if not self._origin(self._function.__module__, *names):
            return node
        if isinstance(value, int | float) and math.copysign(1, value) < 0:
            return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=-value))
        return ast.Constant(value=value)


def _folded(node: ast.BinOp) -> ast.expr:
    """Return the value of a product, sum, difference or quotient of numbers, as Python's compiler does."""
    match node:
        case ast.BinOp(left=ast.Constant(value=left), op=op, right=ast.Constant(value=right)):
            compute = _FOLDED.get(type(op))
            if compute and {type(left), type(right)} <= {int, float}:
                with contextlib.suppress(ArithmeticError):
                    return ast.Constant(value=compute(left, right))
    return node


def _attribute_of(owner: Any, name: str) -> Any:
    """Return an attribute of a plain class or of a frozen dataclass of the user's; ``...`` of others."""
    kind = owner if isinstance(owner, type) else type(owner)
    if type(kind) is not type or not all(map(_is_users, kind.__mro__[:-1])):
        return ...
    if owner is kind:
        return next((one.__dict__[name] for one in kind.__mro__ if name in one.__dict__), ...)
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return ...
    if any(hook in one.__dict__ for one in kind.__mro__[:-1] for hook in _ATTRIBUTE_HOOKS):
        return ...
    default = getattr(kind, name, None)
    return owner.__dict__.get(name, ...) if type(default) in _NUMBERS else ...


def _is_users(kind: type) -> bool:
    return is_users(kind.__module__, file_of(kind.__module__))


def _is_plain(node: ast.expr, helper: types.FunctionType, origin: Origin) -> bool:
    if isinstance(node, ast.Constant):
        return True
    return (
        isinstance(node, ast.Name)
        and type(helper.__globals__.get(node.id, ...)) in _PLAIN
        and bool(origin(helper.__module__, node.id))
    )
