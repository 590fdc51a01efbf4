"""
Reads of files in code, and whether a literal text names the file of each.

A read is a call whose name is a reader's. Its file is known if the path is a literal of an existing file, also through
variables, parameters, elements of a collection and calls that keep the last part of a path. Every other read
has a computed name, and the closure cannot hold its content.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from airflow_streaming.driver.code.code_trees import Function

_READERS: Final = frozenset(
    {
        *("open", "read_text", "read_bytes", "get_data", "files", "mmap"),
        *(
            "read_csv",
            "read_json",
            "read_parquet",
            "read_excel",
            "read_pickle",
            "read_table",
            "read_toml",
        ),
        *("read_sql", "read_feather", "read_orc", "read_xml", "from_pretrained", "load_model"),
        *("loadtxt", "fromfile", "genfromtxt"),
        # Names of files are content of their folder.
        *("listdir", "scandir", "iterdir", "glob", "iglob", "rglob"),
    }
)
_LAST_PART: Final = frozenset({"Path", "PurePath", "PosixPath", "join", "joinpath", "with_name"})
"""Calls whose last argument ends the path."""
_SAME_PATH: Final = frozenset(
    {
        "str",
        "fspath",
        "abspath",
        "realpath",
        "absolute",
        "resolve",
        "expanduser",
        "iter",
        "sorted",
        "list",
    }
)


def reads_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls of functions that read files."""
    for node in nodes:
        if isinstance(node, ast.Call) and called(node) in _READERS and not _writes(node):
            yield node


def reads_unnamed(
    reads: Iterable[ast.Call],
    nodes: Iterable[ast.AST],
    files: Collection[str],
    values: Mapping[str, Collection[str]],
) -> bool:
    """
    Tell whether some read has a computed name.

    :param nodes: All nodes of the code.
    :param files: Texts that name existing files.
    :param values: Texts that variables outside of the code hold, by name.
    """
    paths = _Paths(nodes, frozenset(files), values)
    return not all(map(paths.is_read_named, reads))


def called(node: ast.Call) -> str:
    """Return the last name of a called function; empty for other expressions."""
    return str(getattr(node.func, "attr", None) or getattr(node.func, "id", ""))


def _writes(node: ast.Call) -> bool:
    mode = [one.value for one in node.keywords if one.arg == "mode"]
    given = [*mode, *node.args[0 if isinstance(node.func, ast.Attribute) else 1 :]]
    texts = [one.value for one in given[:2] if isinstance(one, ast.Constant)]
    return any(isinstance(text, str) and text[:1] in ("w", "a", "x") for text in texts)


class _Paths:
    """Follows paths to their literals."""

    def __init__(
        self,
        nodes: Iterable[ast.AST],
        files: frozenset[str],
        values: Mapping[str, Collection[str]],
    ) -> None:
        self._files, self._values = files, values
        self._held: dict[str, list[ast.expr]] = {}
        self._functions: dict[str, list[str]] = {}
        calls = []
        for node in nodes:
            self._note(node)
            if isinstance(node, ast.Call):
                calls.append(node)
        for call in calls:
            self._note_call(call)

    def is_read_named(self, call: ast.Call) -> bool:
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        given = [*owner, *call.args, *(one.value for one in call.keywords)]
        return any(self._is_named(one, frozenset()) for one in given)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._hold(targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._hold([target], value)
            case ast.NamedExpr(target=target, value=value):
                self._hold([target], value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._hold([target], value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._note_function(node)

    def _hold(self, targets: Iterable[ast.expr], value: ast.expr) -> None:
        for target in targets:
            if name := _name_of(target):
                self._held.setdefault(name, []).append(value)

    def _note_function(self, node: Function) -> None:
        given = node.args
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        self._functions[node.name] = names
        defaults = zip(reversed(names), reversed(given.defaults), strict=False)
        keywords = zip([one.arg for one in given.kwonlyargs], given.kw_defaults, strict=True)
        for name, value in (*defaults, *keywords):
            if value is not None:
                self._held.setdefault(name, []).append(value)

    def _note_call(self, node: ast.Call) -> None:
        for name, value in zip(self._functions.get(called(node), ()), node.args, strict=False):
            self._held.setdefault(name, []).append(value)
        if called(node) in self._functions:
            for one in node.keywords:
                if one.arg:
                    self._held.setdefault(one.arg, []).append(one.value)

    def _is_named(self, path: ast.expr, within: frozenset[str]) -> bool:
        """
        Tell whether every value that a path can have is a literal of an existing file.

        :param within: Names that are being followed.
        """
        match path:
            case ast.Constant(value=str() as text):
                return text in self._files
            case ast.BinOp(op=ast.Div(), right=right):
                return self._is_named(right, within)
            case ast.Call(args=[*_, last]) if called(path) in _LAST_PART:
                return self._is_named(last, within)
            case ast.Call(args=[only]) if called(path) in _SAME_PATH:
                return self._is_named(only, within)
            case ast.Call(func=ast.Attribute(value=owner), args=[]) if called(path) in _SAME_PATH:
                return self._is_named(owner, within)
            case ast.Tuple(elts=several) | ast.List(elts=several) | ast.Set(elts=several):
                return bool(several) and all(self._is_named(one, within) for one in several)
            case ast.IfExp(body=one, orelse=other):
                return self._is_named(one, within) and self._is_named(other, within)
            case ast.Name() | ast.Attribute():
                return self._holds_named(_name_of(path), within)
        return False

    def _holds_named(self, name: str, within: frozenset[str]) -> bool:
        if name in within:
            return True  # it adds no value
        texts, held = self._values.get(name, ()), self._held.get(name, [])
        return bool(texts or held) and (
            all(text in self._files for text in texts)
            and all(self._is_named(one, within | {name}) for one in held)
        )


def _name_of(node: ast.expr) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))
