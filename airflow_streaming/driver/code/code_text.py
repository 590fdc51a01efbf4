"""
The normal form of a function's source: equal for two functions only if they do the same.

A function is found in its file by its code object: the file is compiled again, and the code must be
in the result. Then the syntax tree is taken, without details that no caller can see: docstring,
annotations, log lines, names of locals. A call of a simple helper is replaced
by the helper's body. A step that is not proved to keep the meaning is not made.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.code.code_cleaning import cleaned
from airflow_streaming.driver.code.code_constants import Origin, never_known, with_numbers
from airflow_streaming.driver.code.code_inlining import Inlining
from airflow_streaming.driver.code.code_locals import NAMES_MATTER, rename_locals
from airflow_streaming.driver.code.code_trees import (
    Function,
    as_function,
    identifiers_in,
    node_of_code,
    nodes_of,
    texts_in,
)

LINES_MATTER: Final = frozenset(
    {"traceback", "format_exc", "tb_lineno", "f_lineno", "co_firstlineno", "getsourcelines"}
    | {"_getframe", "currentframe", "inspect", "stack", "__traceback__", "exc_info"}
)
"""Code with one of these names may see numbers of lines."""


class Normal(NamedTuple):
    """
    A function in normal form.

    :param text: Its syntax tree as text.
    :param names: Its names; some of them are globals.
    :param identifiers: Every name in it: variables, attributes, imports, texts that are a name.
    :param texts: Every text in it.
    :param more: Globals of its inlined helpers, by name.
    :param helpers: These helpers as they are written.
    :param passes: The function that it calls with its own arguments, if it does nothing else.
    """

    text: str
    names: frozenset[str]
    identifiers: frozenset[str]
    texts: frozenset[str]
    more: Mapping[str, Any] = MappingProxyType({})
    helpers: tuple[Function, ...] = ()
    passes: str = ""


def normal_form(
    function: types.FunctionType,
    mark: Callable[[str], str] = str,
    origin: Origin = never_known,
) -> Normal | None:
    """
    Return a function in normal form; ``None`` where its source is not known for certain.

    :param mark: Puts marks in the place of a lane's own places in a text.
    :param origin: See ``code_constants``; without it every named number keeps its name.
    """
    code = function.__code__
    node = node_of_code(code)
    if node is None or any(
        name.startswith("__") and not name.endswith("__") for name in code.co_names
    ):
        return None  # names of a class that are private are looked up by another name
    found = as_function(node)
    frees = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))

    def lookup(name: str) -> Any:
        return _contents(frees[name]) if name in frees else function.__globals__.get(name)

    # The function object holds the values of the defaults.
    found.args.defaults = [ast.Constant(value=None) for _ in found.args.defaults]
    found.args.kw_defaults = [one and ast.Constant(value=None) for one in found.args.kw_defaults]
    inlining = Inlining(function, lookup, origin)
    body = inlining.body(cleaned(found, lookup).body)
    found.decorator_list = []  # they have run, and the function object has what they made
    found.body = with_numbers(body, function, inlining.taken, origin)
    passes = passed_through(found)
    normal = normal_text(found, mark)
    more = {name: value for name, value in inlining.values.items() if name in normal.names}
    return normal._replace(more=more, helpers=tuple(inlining.helpers), passes=passes)


def passed_through(node: Function) -> str:
    """Return the name of the function that another one calls with its own arguments, and does nothing else."""
    match node:
        case ast.FunctionDef(
            args=ast.arguments(
                posonlyargs=[],
                args=[],
                vararg=ast.arg(arg=rest),
                kwonlyargs=[],
                kwarg=ast.arg(arg=named),
            ),
            body=[
                ast.Return(
                    value=ast.Call(
                        func=ast.Name(id=name),
                        args=[ast.Starred(value=ast.Name(id=given))],
                        keywords=[ast.keyword(arg=None, value=ast.Name(id=given_named))],
                    )
                )
            ],
        ) if (rest, named) == (given, given_named) and name not in (rest, named):
            return name
    return ""


def normal_text(node: Function, mark: Callable[[str], str] = str) -> Normal:
    """Return a cleaned function as text, with its locals renamed by their order."""
    nodes = nodes_of(node)
    names = {one.id for one in nodes if isinstance(one, ast.Name)}
    words = {*identifiers_in(nodes)}
    if not words & NAMES_MATTER:
        rename_locals(node, nodes)
    if node.decorator_list:
        node.decorator_list = []
        nodes = nodes_of(node)
    texts: set[str] = set()
    for one, text in texts_in(nodes):
        texts.add(text)
        one.value = mark(text)
    return Normal(ast.dump(node), frozenset(names), frozenset(words), frozenset(texts))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
