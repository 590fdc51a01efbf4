"""
The user's modules as a worker imports them: statements that run at import, and named definitions.

Plain definitions have no effect before some code names them. All other statements run at each import and
count always. A definition counts if counted code contains its name, as a variable, an attribute or a text.
No code is run.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.code.code_changes import ANY_NAME, changes_in, shared_in
from airflow_streaming.driver.code.code_cleaning import cleaned, without_docstring
from airflow_streaming.driver.code.code_definitions import (
    bound_once_in,
    defined_by,
    is_literal,
    pure_calls,
)
from airflow_streaming.driver.code.code_imports import (
    Opaque,
    file_named,
    imports_of_module,
    is_users,
    loaded_by_module,
    source_of,
)
from airflow_streaming.driver.code.code_text import normal_text
from airflow_streaming.driver.code.code_trees import (
    as_function,
    copied,
    identifiers_of,
    nodes_of,
    texts_in,
)

_ALWAYS: Final = frozenset({"__getattr__", "__path__"})


_MOST_IMPORTS: Final = 10
"""Modules that a name may come through."""


class Effect(NamedTuple):
    """
    A statement that does something at each import.

    :param too_early: Definitions that it names and that stand behind it.
    """

    statement: ast.stmt
    too_early: frozenset[str]


class ModuleText(NamedTuple):
    """
    A module of the user's.

    :param effects: Statements that do something at each import.
    :param definitions: Plain definitions by name.
    :param imports: Modules that it names in an import or a loader.
    :param changes: Names that its functions bind, and attributes that it sets; ``*`` for any name.
    :param shared: Names of values that its code may hand on, so that others may change the content.
    """

    name: str
    file: str
    effects: tuple[Effect, ...]
    definitions: Mapping[str, ast.stmt]
    imports: tuple[str, ...]
    changes: frozenset[str]
    shared: frozenset[str]


def module_text(name: str, *, exact: bool = False) -> ModuleText | None:
    """
    Return a module's text; ``None`` for a module of Python or of an installed package.

    :raises Opaque: it is the user's and has no text, or loads code by a computed name.
    """
    file = file_named(name)
    if not file or not is_users(name, file):
        return None
    if not file.endswith(".py"):
        raise Opaque(f"module {name}")
    return _parsed(name, file, source_of(name, file), exact)


class Surroundings:
    """
    The script, the user's loaded modules and all modules that they import.

    :param script: The script's file and text.
    :raises Opaque: see ``module_text``.
    """

    def __init__(self, script: tuple[str, str], loaded: Iterable[str]) -> None:
        main = _parsed("__main__", *script, exact=False)
        self._modules = _modules_from([*loaded, *main.imports], exact=False) | {"__main__": main}
        self._changes = frozenset().union(*(one.changes for one in self._modules.values()))
        self._shared = frozenset().union(*(one.shared for one in self._modules.values()))

    def origin(self, module: str, *names: str, is_table: bool = False) -> str:
        """
        Return the module that defines a constant by a literal; empty where code may bind or change it.

        :param names: A name of the module, and one of its attributes.
        :param is_table: Its value is a dict of literals, and its content is fixed too.
        """
        if "*" in self._changes or not self._changes.isdisjoint(names):
            return ""
        if is_table and not self._shared.isdisjoint((names[0], "*")):
            return ""
        for _ in range(_MOST_IMPORTS):
            known = self._modules.get(module)
            one = known.definitions.get(names[0]) if known is not None else None
            if known is None or not isinstance(one, ast.ImportFrom):
                break
            if one.level or not one.module or all(n.name != names[0] for n in one.names):
                return ""
            module = one.module
        if known is None or one is None:
            return ""
        return module if is_literal(one, names[1:], known.definitions, is_table=is_table) else ""


class Slice(NamedTuple):
    """
    The part of the user's modules that counts.

    :param texts: By module, its part as text.
    :param trees: The same as syntax trees.
    :param packages: First names of other modules that these parts import.
    :param files: The file of each module that is imported.
    """

    texts: Mapping[str, str]
    trees: tuple[ast.AST, ...]
    packages: frozenset[str]
    files: Mapping[str, str]


def slice_of(
    roots: Iterable[str],
    names: Iterable[str],
    mark: Callable[[str], str],
    live: Iterable[str] = (),
    *,
    exact: bool = False,
) -> Slice:
    """
    Return the counted part of modules and of their imports, for code with some names.

    :param names: Names in the code that imports them.
    :param live: Modules whose named definitions count as objects. Here only the statements of their import
        counts, and the definitions that this names.
    :param exact: Keep docstrings, annotations, log lines and names of locals.
    :raises Opaque: see ``module_text``.
    """
    modules = _modules_from(roots, exact=exact)
    outer: set[str] = {*names}
    inner: set[str] = set()
    parts: dict[str, dict[str, ast.stmt]] = {}
    kept = {*live}
    grown = True
    while grown:
        grown = False
        for name, module in [*modules.items()]:
            wanted = inner if name in kept else inner | outer
            part = parts.setdefault(name, {})
            for key, one in _counting(module, wanted):
                if key in part:
                    continue
                grown = True
                part[key] = one
                inner |= {*identifiers_of(one)}
                modules |= _modules_from(loaded_by_module(one, module.definitions), exact=exact)
    trees = tuple(one for found in parts.values() for one in found.values())
    texts = {
        name: "\n".join(
            f"{key} {_text(one, mark, exact=exact)}" for key, one in sorted(found.items())
        )
        for name, found in parts.items()
        if found
    }
    files = {name: module.file for name, module in modules.items()}
    texts = dict(sorted(texts.items()))
    return Slice(texts, trees, frozenset(packages_in(trees)), files)


def import_text(module: ModuleText, mark: Callable[[str], str], *, exact: bool) -> str:
    """Return the statements of one module that run at its import, and the definitions that they name."""
    part: dict[str, ast.stmt] = {}
    names: set[str] = set()
    while more := [pair for pair in _counting(module, names) if pair[0] not in part]:
        part |= more
        names |= {word for _, one in more for word in identifiers_of(one)}
    return "\n".join(f"{key} {_text(one, mark, exact=exact)}" for key, one in sorted(part.items()))


def packages_in(trees: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the first names of modules that trees import."""
    for tree in trees:
        for node in nodes_of(tree):
            if isinstance(node, ast.Import):
                yield from (one.name.partition(".")[0] for one in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.module.partition(".")[0]


@lru_cache(maxsize=4096)
def _parsed(name: str, file: str, text: str | bytes, exact: bool) -> ModuleText:
    tree = ast.parse(text)
    nodes = nodes_of(tree)
    stored = [name for node in nodes if isinstance(node, ast.Global) for name in node.names]
    package = name if Path(file).stem == "__init__" else name.rpartition(".")[0]
    above = [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]
    imports = {*imports_of_module(nodes, package), *above} - {""}
    changes, shared = frozenset({*stored, *changes_in(nodes)}), frozenset(shared_in(nodes))
    if not exact:
        _clean(tree, _lookup(tree, stored))
    effects: list[Effect] = []
    definitions: dict[str, ast.stmt] = {}
    pure = pure_calls(tree, bound_once_in(tree, stored))
    once = bound_once_in(tree, stored, pure)
    later = {bound for one in tree.body for bound in defined_by(one, pure) or ()}
    for one in tree.body:
        names = defined_by(one, pure)
        if names is None or not once.issuperset(names):
            effects.append(Effect(one, frozenset(later.intersection(identifiers_of(one)))))
        else:
            later -= {*names}
            definitions.update(dict.fromkeys(names, one))
    return ModuleText(
        name, file, tuple(effects), definitions, tuple(sorted(imports)), changes, shared
    )


def _clean(tree: ast.Module, lookup: Callable[[str], Any]) -> None:
    """Take out docstrings, annotations and log lines of the functions, as of a function that is loaded."""
    for one in tree.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            cleaned(one, lookup)
        for inner in nodes_of(one) if isinstance(one, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                cleaned(inner, lookup)
            elif isinstance(inner, ast.ClassDef):
                inner.body = without_docstring(inner.body) or [ast.Pass()]


def _counting(module: ModuleText, wanted: set[str]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements that count for code with some names, each with its place."""
    for number, effect in enumerate(module.effects):
        yield f"{number:06} {','.join(sorted(effect.too_early))}", effect.statement
    every = bool(wanted & ANY_NAME)
    for bound, one in module.definitions.items():
        if every or bound in wanted or bound in _ALWAYS:
            yield bound, one


def _modules_from(roots: Iterable[str], *, exact: bool) -> dict[str, ModuleText]:
    found: dict[str, ModuleText | None] = {}
    waiting = sorted(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = module = module_text(name, exact=exact)
            waiting += module.imports if module is not None else ()
    return {name: module for name, module in sorted(found.items()) if module is not None}


def _text(one: ast.stmt, mark: Callable[[str], str], *, exact: bool) -> str:
    if (
        isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and not one.decorator_list
        and not exact
    ):
        return f"{one.name} {normal_text(as_function(one), mark).text}"
    if all(mark(text) == text for _, text in texts_in(nodes_of(one))):
        return ast.dump(one)
    node = copied(one)
    for constant, text in texts_in(nodes_of(node)):
        constant.value = mark(text)
    return ast.dump(node)


def _lookup(tree: ast.Module, stored: Iterable[str]) -> Callable[[str], Any]:
    """Return a lookup of a module's names; only loggers have their value."""
    known: dict[str, list[Any]] = {}
    for one in tree.body:
        value: Any = one
        match one:
            case ast.Assign(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="logging"), attr="getLogger"))
            ):
                value = logging.getLogger()
            case ast.Import(names=[ast.alias(name="logging", asname=None)]):
                value = logging
        for name in defined_by(one) or ():
            known.setdefault(name, []).append(value)

    def lookup(name: str) -> Any:
        values = known.get(name, ())
        return values[0] if len(values) == 1 and name not in stored else None

    return lookup
