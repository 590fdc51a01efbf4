"""
The closure of the user's Python functions: a fingerprint of their code, and pieces that they read.

Spark's plans never show the body of a function. Two functions have equal fingerprints only if all
reached parts are equal: code in its normal form, defaults, closure cells, the globals named in the code,
classes with their metaclasses, bases and attributes, and the content of objects (``code_objects``).
The statements that an import of a user's module runs count, and the definitions that the code names, loaded or
not. A function's own name does not count, so a rename alone is the same code.

Code or objects that cannot be analyzed make the fingerprint opaque, and gates treat it as
different. The same holds for code that loads other code by a computed name or text
(``import_module``, ``exec`` ...). A literal name is followed to its module.
"""

from __future__ import annotations

import abc
import ast
import contextlib
import functools
import linecache
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.code import code_world
from airflow_streaming.driver.code.code_changes import ANY_NAME, changes_of_process
from airflow_streaming.driver.code.code_imports import (
    EVALUATORS,
    IMPORTERS,
    LOADERS,
    Opaque,
    codes_of,
    file_named,
    is_by_name,
    is_users,
    loaded_by_code,
    named_by,
    names_within,
    refuse_loaders,
)
from airflow_streaming.driver.code.code_locals import NAMES_MATTER
from airflow_streaming.driver.code.code_modules import (
    Surroundings,
    import_text,
    module_text,
    packages_in,
    slice_of,
)
from airflow_streaming.driver.code.code_objects import MARKS, Contents
from airflow_streaming.driver.code.code_reads import reads_in, reads_unnamed
from airflow_streaming.driver.code.code_text import LINES_MATTER, Normal, normal_form
from airflow_streaming.driver.code.code_trees import (
    identifiers_in,
    node_of_code,
    nodes_of,
    texts_in,
)
from airflow_streaming.model.spark.plan import OPAQUE

_NOT_OF_CLASSES: Final = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__slotnames__",
        "_abc_impl",
    }
)
_NOT_OF_USER: Final = frozenset({"airflow_streaming", "py4j", "pyspark", "__main__", "__mp_main__"})
_CACHES: Final = frozenset({"dispatch_cache", "cache_token", "_clear_cache"})
"""Variables of ``functools.singledispatch`` that its registry decides."""
_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """
    Everything that a function reaches.

    :param code: Fingerprint of its code; ``opaque:...`` where it could not be analyzed.
    :param pieces: Its inputs beside the code by name, e.g. ``file rates.json``, with a digest each.
    :param words: Every name in its code.
    :param texts: Every text in its code, and every text that it holds.
    """

    code: str = ""
    pieces: Mapping[str, str] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


def fingerprint(function: Any) -> str:
    """
    Return the fingerprint of a function or an object that is called, ``opaque:...`` of others.

    It ends with a mark for each place of the deployment that the function uses, e.g. ``{output}``.
    """
    return closure_of(function).code


def closure_of(function: Any, *, in_driver: bool = False) -> Closure:
    """
    Return the closure of a function or an object that is called.

    :param in_driver: It runs in this process and sees the changes of the script and of loaded modules.
    """
    reader = _Reader()
    try:
        code = reader.fingerprint(function, in_driver=in_driver)
        if reader.seeing & (NAMES_MATTER | LINES_MATTER) or reader.hands_on_called:
            exact = bool(reader.seeing & (NAMES_MATTER | LINES_MATTER))
            lines = bool(reader.seeing & LINES_MATTER)
            reader = _Reader(exact=exact, lines=lines, with_wrappers=True)
            code = reader.fingerprint(function, in_driver=in_driver)
    except Opaque as why:
        code = f"{OPAQUE} {why}"
    except Exception as err:  # noqa: BLE001 - the user's objects may raise anything
        code = f"{OPAQUE} {type(err).__name__}"
    try:
        pieces = dict(reader.pieces(code_world.environment_of_workers()))
    except Exception as err:  # noqa: BLE001 - as above
        pieces = {"reads": f"{OPAQUE} {type(err).__name__}"}
    return Closure(
        code=code, pieces=pieces, words=frozenset(reader.words), texts=frozenset(reader.texts)
    )


class _Reader(Contents):
    """
    Reads one function, its code, and the modules that the code names.

    :param with_wrappers: Count wrappers that do nothing but call, because code may look at one.
    """

    def __init__(
        self, *, exact: bool = False, lines: bool = False, with_wrappers: bool = False
    ) -> None:
        super().__init__(exact=exact, lines=lines)
        self._with_wrappers = exact or with_wrappers
        self._only_called: set[str] = set()
        self._around: list[Surroundings] | None = None
        self._live: dict[str, types.ModuleType] = {}
        self._roots: set[str] = set()
        self._in_driver = False
        self._packages: set[str] = set()
        self._trees: list[ast.AST] = []
        self._folders: set[str] = set()
        self.words: set[str] = set()
        self.seeing: set[str] = set()

    def _surroundings(self) -> Surroundings | None:
        if self._around is None:
            try:
                self._around = [Surroundings(_script(), [name for name, _ in _loaded_of_user()])]
            except (Opaque, OSError, SyntaxError, ValueError):
                self._around = []  # not all code is known, so nothing is fixed
        return self._around[0] if self._around else None

    def fingerprint(self, thing: Any, *, in_driver: bool = False) -> str:
        version = ".".join(map(str, sys.version_info[:2]))
        self._say("python", version)
        self._take(thing, is_root=True)
        self._in_driver = in_driver
        if in_driver:
            self._process()
        self._take_named()
        self._take_modules()
        return self._hash.hexdigest()[:20] + "".join(m for m in MARKS if m in self._used)

    def _process(self) -> None:
        """Count possible changes of this process by the script and its modules."""
        with contextlib.suppress(SyntaxError):
            tree = ast.parse(_script()[1])
            self._say("process", *(self._marked(one) for one in changes_of_process(tree)))
        for name, file in _loaded_of_user():
            try:
                text = module_text(name, exact=self._exact)
                if text is not None and (
                    runs := import_text(text, self._marked, exact=self._exact)
                ):
                    self._say("module", name, runs)
            except Exception:  # noqa: BLE001 - it has its own loader, so the file counts
                self._say("module", name, code_world.digest_of(Path(file).read_bytes()))

    def pieces(self, workers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """
        Yield the inputs of the code beside its text.

        :param workers: Variables that Spark adds to the environment of Python workers.
        """
        files: list[tuple[str, str]] = []
        nodes = self._nodes()
        reads = [*reads_in(nodes)]
        if not self._in_driver or reads:
            # The function of a sink often has the name of a file that it writes.
            files = [*code_world.files_named(self.texts, sorted(self._folders))]
        yield from files
        names = {name.removeprefix("file ") for name, _ in files}
        if reads and reads_unnamed(reads, nodes, names, self._values):
            yield "files", f"{OPAQUE} read by a computed name"
        yield from code_world.packages(self._packages)
        yield from code_world.environment(nodes, self.words, workers)
        yield from code_world.programs(nodes)
        yield from code_world.zone(self.words, workers)

    def _nodes(self) -> list[ast.AST]:
        """Return the nodes of all trees; a helper of several functions counts once."""
        trees = {id(tree): tree for tree in self._trees}
        return [node for tree in trees.values() for node in nodes_of(tree)]

    def _join(self, reader: _Reader) -> None:
        super()._join(reader)
        self._live |= reader._live
        self._roots |= reader._roots
        self._packages |= reader._packages
        self._trees += reader._trees
        self._folders |= reader._folders
        self._only_called |= reader._only_called
        self.words |= reader.words
        self.seeing |= reader.seeing

    def _code(self, code: types.CodeType) -> None:
        self._say("code", code.co_code.hex(), code.co_flags)
        self._say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self._say(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._say(getattr(code, "co_exceptiontable", b"").hex())
        if self._lines:
            self._say(code.co_firstlineno, code.co_linetable.hex())
        self.words.update(code.co_names, code.co_varnames, code.co_freevars)
        if not code.co_filename.startswith("<") and is_users("?", code.co_filename):
            self.seeing.update(code.co_names)
        for one in code.co_consts:
            if isinstance(one, str):
                self.words.update(part for part in one.split(".") if part.isidentifier())
            self._take(one)

    def _function(self, function: types.FunctionType, *, is_root: bool = False) -> None:
        if is_by_name(function):
            self._installed(function.__module__, function.__qualname__)
            return
        self._say("function", "" if is_root else function.__name__)
        self._users_module(function.__module__)
        code = function.__code__
        refuse_loaders(name for one in codes_of(code) for name in one.co_names)
        normal = None if self._exact else normal_form(function, self._marked, self._origin)
        names, node = {*named_by(code).globals}, node_of_code(code)
        if normal is None:
            self._code(code)
            self._take(dict(function.__annotations__))
        else:
            self._say("text", normal.text)
            self.words |= normal.identifiers
            self.seeing |= normal.identifiers
            self.texts |= normal.texts
            names = (names & normal.names) | normal.more.keys()
        trees = [*([] if node is None else [node]), *(normal.helpers if normal is not None else ())]
        self._trees += trees
        self._packages.update(packages_in(trees))
        self._take(function.__defaults__)
        self._take(function.__kwdefaults__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            if normal is None or name in normal.names:
                if code.co_filename == functools.__file__ and name in _CACHES:
                    continue
                self._cell(name, cell)
        if function.__dict__:
            left_out = {"__wrapped__", *(_CACHES if code.co_filename == functools.__file__ else ())}
            self._take({k: v for k, v in function.__dict__.items() if k not in left_out})
            self._take(function.__dict__.get("__wrapped__"))
        self._globals(function, names, normal)

    @property
    def hands_on_called(self) -> bool:
        """Tell whether code may do more with a function than call it, whose wrapper was left out."""
        if not self._only_called:
            return False
        nodes = self._nodes()
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        others = {
            getattr(node, "attr", None) or getattr(node, "id", None)
            for node in nodes
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called
        }
        texts = {text for _, text in texts_in(nodes)}
        return bool(self._only_called & (others | texts) or self.words & ANY_NAME)

    def _take_by_name(self, name: str, thing: Any) -> None:
        if type(thing) is types.FunctionType and "__wrapped__" in thing.__dict__:
            inner = self._called(thing)
            if inner is not thing:
                self._only_called.add(name)
                thing = inner
        self._take(thing)

    def _called(self, function: types.FunctionType) -> types.FunctionType:
        """Return what a decorator wrapped, where its wrapper calls it, logs, reads clocks and does nothing else."""
        inner = function.__dict__.get("__wrapped__")
        if (
            self._with_wrappers
            or type(inner) is not types.FunctionType
            or len(function.__dict__) > 1
        ):
            return function
        normal = normal_form(function, self._marked, self._origin)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if normal is None or normal.passes not in cells or function.__name__ != inner.__name__:
            return function
        with contextlib.suppress(ValueError):
            if cells[normal.passes].cell_contents is inner:
                return self._called(inner)
        return function

    def _origin(self, module: str, *names: str, is_table: bool = False) -> str:
        around = self._surroundings()
        found = "" if around is None else around.origin(module, *names, is_table=is_table)
        if found and len(names) > 1:
            self._users_module(found)  # a worker imports it for the class
        return found

    def _cell(self, name: str, cell: Any) -> None:
        try:
            inner = cell.cell_contents
        except ValueError:
            self._say("empty cell")
        else:
            self._hold(name, inner)
            self._take(inner)

    def _globals(
        self, function: types.FunctionType, names: set[str], normal: Normal | None
    ) -> None:
        known = {**(normal.more if normal is not None else {}), **function.__globals__}
        if "globals" in names and "globals" not in known:
            names |= {name for name in known if not name.startswith("__")}
        for name in sorted(names):
            if name in IMPORTERS and name in getattr(known.get(name), "__name__", ""):
                continue  # every call of it is checked
            if name in known:
                self._say("global", name)
                self._hold(name, known[name])
                self._take_by_name(name, known[name])
            elif name in EVALUATORS:
                raise Opaque(f"code that {name} makes")
        self._imports(function.__code__, str(known.get("__package__") or ""))

    def _imports(self, code: types.CodeType, package: str) -> None:
        for name in sorted(named_by(code).imports):
            for full in (name, *names_within(package, name)):
                if full == name or file_named(full):
                    self._module_named(full)
        for inner in codes_of(code):
            for name in loaded_by_code(inner):
                self._module_named(name)

    def _class(self, kind: type) -> None:
        if is_by_name(kind):
            self._installed(kind.__module__, kind.__qualname__)
            return
        self._users_module(kind.__module__)
        self._say("class", kind.__name__)
        if type(kind) is not type:
            self._take(type(kind))
        self._sequence(kind.__bases__)
        for name, value in kind.__dict__.items():
            if name not in _NOT_OF_CLASSES and not isinstance(value, _SLOTS):
                self._say(name)
                self._hold(name, value)
                self._take_by_name(name, value)
        if isinstance(kind, abc.ABCMeta):
            self._sequence(sorted(_registered(kind), key=lambda one: one.__qualname__))

    def _module(self, module: types.ModuleType) -> None:
        self._say("module", module.__name__)
        self._module_named(module.__name__)

    def _module_named(self, name: str) -> None:
        text = module_text(name) if name else None
        if text is None:
            self._packages.add(name.partition(".")[0])
            if name in IMPORTERS | LOADERS:
                raise Opaque(f"what {name} loads, by another name")
            self._say("import", name)
            return
        self._users_module(name)

    def _users_module(self, name: str | None) -> None:
        """Count the statements that an import of a user's module runs."""
        if name in (None, "__main__", "__mp_main__"):
            main = getattr(sys.modules.get("__main__"), "__file__", None)
            if main:
                self._folders.add(str(Path(main).absolute().parent))
            return
        file = file_named(str(name))
        if not file or not is_users(name, file):
            return
        self._roots.add(str(name))
        module = sys.modules.get(str(name))
        if module is not None:
            self._live[str(name)] = module

    def _take_named(self) -> None:
        """Take the attributes of the user's loaded modules that the code names."""
        taken: set[tuple[str, str]] = set()
        while True:
            every = bool(self.words & ANY_NAME)
            new = sorted(
                (name, key)
                for name, module in self._live.items()
                for key in vars(module)
                if (name, key) not in taken
                and (
                    key in self.words
                    or key == "__getattr__"
                    or (every and not key.startswith("__"))
                )
            )
            if not new:
                return
            for name, key in new:
                taken.add((name, key))
                self._say("held by", name, key)
                self._hold(key, vars(self._live[name])[key])
                self._take_by_name(key, vars(self._live[name])[key])

    def _take_modules(self) -> None:
        found = slice_of(self._roots, self.words, self._marked, self._live, exact=self._exact)
        for name, text in sorted(found.texts.items()):
            self._say("module", name, text)
        self._trees += found.trees
        self._packages |= found.packages
        nodes = [node for tree in found.trees for node in nodes_of(tree)]
        words = {*identifiers_in(nodes)}
        self.words |= words
        self.seeing |= words
        self.texts |= {text for _, text in texts_in(nodes)}
        self._folders |= {str(Path(file).absolute().parent) for file in found.files.values()}

    def _installed(self, module: str | None, name: str) -> None:
        if name in IMPORTERS | LOADERS or (module == "builtins" and name in EVALUATORS):
            raise Opaque(f"what {name} loads, by another name")
        self._packages.add((module or "").partition(".")[0])
        self._say("installed", module, name)


def _script() -> tuple[str, str]:
    """Return the file of the user's script and its text."""
    path = str(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    return path, "".join(linecache.getlines(path))


def _loaded_of_user() -> Iterator[tuple[str, str]]:
    """Yield the user's loaded modules with a text, each with its file."""
    for name, module in [*sys.modules.items()]:
        file = str(getattr(module, "__file__", None) or "")
        own = name.partition(".")[0] in _NOT_OF_USER
        if not own and file.endswith(".py") and is_users(name, file):
            yield name, file


def _registered(kind: abc.ABCMeta) -> Iterator[type]:
    """Yield the classes that count as subclasses of an abstract one."""
    dump = getattr(sys.modules.get("_abc"), "_get_dump", None)
    for one in dump(kind)[0] if dump is not None else ():
        if (found := one()) is not None:
            yield found
