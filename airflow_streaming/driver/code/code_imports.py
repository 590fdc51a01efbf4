"""
Modules that code imports and loads: their names and texts.

The code is not run. Code that loads other code by a computed name or text cannot be followed, and
is :class:`Opaque`.
"""

from __future__ import annotations

import ast
import dis
import importlib.machinery
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
IMPORTERS: Final = frozenset({"import_module", "__import__", "run_module", "resolve_name"})
"""Functions that load the code of a module by its name."""
_OF_CALLS: Final = frozenset({"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG"})
"""Steps between a function and its argument that differ from Python to Python."""
EVALUATORS: Final = frozenset({"exec", "eval", "compile"})
"""Builtins that make code of a text; methods have these names, too (``re.compile``)."""
LOADERS: Final = frozenset({"run_path", "exec_module", "load_module", "spec_from_file_location"})
"""Functions that load the code of a file, under its own name or another."""
_INSTALLED: Final = tuple(
    {
        str(Path(sysconfig.get_paths()[name]).resolve())
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)

_PARTS: Final = ("site-packages", "dist-packages", "/pyspark/")


class Opaque(Exception):
    """Code or an object that cannot be analyzed."""


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code and all code within it: inner functions, lambdas, comprehensions."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from codes_of(one)


class Named(NamedTuple):
    """
    Names in code and in all code within it.

    :param globals: Names that it looks up outside of its functions.
    :param imports: Each import, and each name imported from it, which may be a module.
    """

    globals: frozenset[str]
    imports: frozenset[str]


@lru_cache(maxsize=8192)
def named_by(code: types.CodeType) -> Named:
    """Return the names of other code in code."""
    looked_up: set[str] = set()
    imports: set[str] = set()
    for one in codes_of(code):
        base = ""
        for step in dis.get_instructions(one):
            if step.opname in _GLOBALS:
                looked_up.add(str(step.argval))
            elif step.opname == "IMPORT_NAME":
                base = str(step.argval)
                imports.add(base)
            elif step.opname == "IMPORT_FROM":
                imports.add(f"{base}.{step.argval}".lstrip("."))
    return Named(frozenset(looked_up), frozenset(imports))


def loaded_by_code(code: types.CodeType) -> Iterator[str]:
    """
    Yield the modules that code loads by a literal name.

    :raises Opaque: it computes the name, or calls a loader by another name.
    """
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    if IMPORTERS.isdisjoint(names) and IMPORTERS.isdisjoint(code.co_consts):
        return
    steps = [one for one in dis.get_instructions(code) if one.opname not in _OF_CALLS]
    for place, step in enumerate(steps):
        if step.argval not in IMPORTERS or step.opname.startswith("STORE"):
            continue
        after = steps[place + 1 : place + 3]
        if step.opname == "IMPORT_FROM" and after[0].argval == step.argval:
            continue
        name, call = (*after, None, None)[:2]
        is_plain = (
            name is not None
            and call is not None
            and name.opname == "LOAD_CONST"
            and isinstance(name.argval, str)
            and call.opname.startswith("CALL")
            and call.arg == 1
        )
        if not is_plain or name is None:
            raise Opaque(f"what {step.argval} loads")
        yield name.argval


def loaded_by_module(tree: ast.AST, defined: Iterable[str] = ()) -> Iterator[str]:
    """
    Yield the same of a statement of a module.

    :param defined: Names that the module defines.
    """
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {id(call.func): call for call in calls}
    bound = {*defined, *_bound_in(nodes)}
    for node in nodes:
        if isinstance(node, ast.alias) and node.name in IMPORTERS | LOADERS:
            if node.asname not in (None, node.name):
                raise Opaque(f"what {node.name} loads, by another name")
            continue
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if name in LOADERS or (
            isinstance(node, ast.Name) and name in EVALUATORS and name not in bound
        ):
            raise Opaque(f"what {name} loads")
        if name in IMPORTERS:
            match called.get(id(node)):
                case ast.Call(args=[ast.Constant(value=str(told))], keywords=[]):
                    yield told
                case _:
                    raise Opaque(f"what {name} loads")


def refuse_loaders(names: Iterable[str]) -> None:
    """
    Refuse code that names what loads a file of code.

    :raises Opaque: it does.
    """
    if found := LOADERS.intersection(names):
        raise Opaque(f"what {min(found)} loads")


def names_within(package: str, name: str) -> Iterator[str]:
    """Yield the possible meanings of a relative import, for any number of levels."""
    while package:
        yield f"{package}.{name}" if name else package
        package = package.rpartition(".")[0]


def imports_of_module(nodes: Iterable[ast.AST], package: str) -> Iterator[str]:
    """Yield the imports anywhere in the nodes of a package's module, functions included."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
            yield base
            if is_users(base, file_named(base)):
                yield from (n for a in node.names if file_named(n := f"{base}.{a.name}"))


def file_named(name: str) -> str:
    """Return the file of a module by its name without running it, also if it is not loaded yet."""
    if name in sys.modules:
        return file_of(name)
    found = _spec_of(name)
    return str(found.origin or "") if found is not None and found.has_location else ""


def source_of(name: str, file: str) -> str | bytes:
    """Return the text of a module, which may be in an archive."""
    spec = _spec_of(name)
    read = getattr(spec.loader if spec is not None else None, "get_source", None)
    text = read(name) if read is not None else None
    return text if isinstance(text, str) else Path(file).read_bytes()


def is_users(module: str | None, file: str) -> bool:
    """Tell whether code is the user's, and not Python's or an installed package's."""
    if module in (None, "__main__", "__mp_main__"):
        return True
    if module == "builtins" or module in sys.builtin_module_names:
        return False
    if not file:
        # Without a file it was made here, or is part of Python.
        return str(module).partition(".")[0] not in sys.stdlib_module_names
    if file.startswith("<"):
        return not file.startswith("<frozen")
    return not _is_installed(file)


def file_of(module: str | None) -> str:
    """Return the file of a module that is loaded, empty where it has none."""
    return str(getattr(sys.modules.get(module or ""), "__file__", None) or "")


def is_by_name(thing: Any) -> bool:
    """Tell whether a function or class is one of Python's or of an installed package, by its name."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module in (None, "__main__", "__mp_main__") or is_users(module, file_of(module)):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def _bound_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, importlib.machinery.ModuleSpec):
        return loaded
    path: list[str] | None = None
    found: importlib.machinery.ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        if not all(part.isidentifier() for part in parts) or (count > 1 and path is None):
            return None
        found = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), path)
        if found is None:
            return None
        within = found.submodule_search_locations
        path = None if within is None else list(within)
    return found


@lru_cache(maxsize=8192)
def _is_installed(file: str) -> bool:
    found = str(Path(file).resolve())
    return found.startswith(_INSTALLED) or any(part in found for part in _PARTS)
