"""
The closure of the user's Python functions: a fingerprint of their code, and pieces that they read.

Spark's plans never show the body of a function. Two functions have equal fingerprints only if all
reached parts are equal: code in its normal form, defaults, closure cells, the globals named in the code,
classes with their metaclasses, bases and attributes, objects with their content. An object counts by its
name alone only if its module has it under this name and the module is Python's or an installed package's.
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
import enum
import functools
import hashlib
import inspect
import linecache
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
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
    file_of,
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
from airflow_streaming.driver.code.code_reads import reads_in, reads_unnamed
from airflow_streaming.driver.code.code_text import LINES_MATTER, Normal, normal_form
from airflow_streaming.driver.code.code_trees import (
    identifiers_in,
    node_of_code,
    nodes_of,
    texts_in,
)
from airflow_streaming.model.spark.own_places import OwnPlaces
from airflow_streaming.model.spark.plan import OPAQUE

_MARKS: Final = ("{output}", "{checkpoint}")
MAX_PARTS: Final = 20_000
"""Values that one function may reach; of more it is opaque."""
_MAX_DEPTH: Final = 150
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
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
_WITHOUT_VALUE: Final = frozenset({"lock", "RLock", "Lock", "_RLock"})
"""Types whose objects hold no value."""
_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
_HEAP: Final = 1 << 9
"""Set for classes that a class statement made."""

_own = OwnPlaces()


def set_own_places(places: OwnPlaces) -> None:
    """Take the places of this process's deployment for marks in every later fingerprint."""
    global _own
    _own = places


def own_places() -> OwnPlaces:
    """Return the places of this process's deployment."""
    return _own


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


def closure_of(
    function: Any, conf: Mapping[str, str] | None = None, *, in_driver: bool = False
) -> Closure:
    """
    Return the closure of a function or an object that is called.

    :param conf: Configuration of Spark, for the environment of executors.
    :param in_driver: It runs in this process and sees the changes of the script and of loaded modules.
    """
    reader = _Reader()
    try:
        code = reader.fingerprint(function, in_driver=in_driver)
        if reader.seeing & (NAMES_MATTER | LINES_MATTER):
            reader = _Reader(exact=True, lines=bool(reader.seeing & LINES_MATTER))
            code = reader.fingerprint(function, in_driver=in_driver)
    except Opaque as why:
        code = f"{OPAQUE} {why}"
    except Exception as err:  # noqa: BLE001 - the user's objects may raise anything
        code = f"{OPAQUE} {type(err).__name__}"
    try:
        pieces = dict(reader.pieces(conf or {}))
    except Exception as err:  # noqa: BLE001 - as above
        pieces = {"reads": f"{OPAQUE} {type(err).__name__}"}
    return Closure(
        code=code, pieces=pieces, words=frozenset(reader.words), texts=frozenset(reader.texts)
    )


class _Reader:
    """
    Reads one function.

    :param exact: Its code may see docstrings, annotations and names of locals.
    :param lines: It may see numbers of lines.
    """

    def __init__(self, *, exact: bool = False, lines: bool = False) -> None:
        self._exact, self._lines = exact, lines
        self._around: list[Surroundings] | None = None
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._depth = 0
        self._used: set[str] = set()
        self._live: dict[str, types.ModuleType] = {}
        self._roots: set[str] = set()
        self._in_driver = False
        self._packages: set[str] = set()
        self._trees: list[ast.AST] = []
        self._folders: set[str] = set()
        self._values: dict[str, set[str]] = {}
        """Texts and paths that names of the code hold."""
        self.words: set[str] = set()
        self.seeing: set[str] = set()
        self.texts: set[str] = set()

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
        return self._hash.hexdigest()[:20] + "".join(m for m in _MARKS if m in self._used)

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

    def digest(self, thing: Any) -> str:
        self._take(thing)
        return self._hash.hexdigest()[:20]

    def pieces(self, conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the inputs of the code beside its text."""
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
        yield from code_world.environment(nodes, self.words, conf)
        yield from code_world.programs(nodes)
        yield from code_world.zone(self.words)

    def _nodes(self) -> list[ast.AST]:
        """Return the nodes of all trees; a helper of several functions counts once."""
        trees = {id(tree): tree for tree in self._trees}
        return [node for tree in trees.values() for node in nodes_of(tree)]

    def _say(self, *parts: object) -> None:
        for part in parts:
            data = str(part).encode("utf-8", "surrogatepass")
            self._hash.update(str(len(data)).encode() + b":" + data)

    def _say_plain(self, name: str, thing: Any) -> None:
        if isinstance(thing, str):
            self.texts.add(thing)
            self._say(name, repr(self._marked(thing)))
        else:
            self._say(name, repr(thing))

    def _marked(self, text: str) -> str:
        if (marked := _own.marked(text)) != text:
            self._used |= {mark for mark in _MARKS if mark in marked}
        return marked

    def _path(self, thing: PurePath) -> None:
        self._say("path")
        self._say_plain(type(thing).__name__, str(thing))

    def _take(self, thing: Any, *, is_root: bool = False) -> None:
        if type(thing) in _PLAIN:
            self._say_plain(type(thing).__name__, thing)
            return
        known = self._seen.get(id(thing))
        if known is not None:
            self._say("seen", known)
            return
        if len(self._seen) > MAX_PARTS or self._depth > _MAX_DEPTH:
            raise Opaque("more than can be followed")
        self._seen[id(thing)] = len(self._seen)
        self._kept.append(thing)  # an id is one thing's as long as it lives
        self._depth += 1
        self._look_into(thing, is_root=is_root)
        self._depth -= 1

    def _look_into(self, thing: Any, *, is_root: bool) -> None:
        kind = type(thing)
        read = _KINDS.get(kind)
        if read is not None:
            read(self, thing)
        elif kind is types.FunctionType:
            self._function(thing, is_root=is_root)
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, enum.Enum):
            self._enum(thing)
        elif isinstance(thing, PurePath) and not self._is_users_class(kind):
            self._path(thing)
        else:
            self._object(thing)

    def _sequence(self, thing: Iterable[Any]) -> None:
        self._say(type(thing).__name__)
        for one in thing:
            self._take(one)
        self._say("end")

    def _mapping(self, thing: Mapping[Any, Any]) -> None:
        self._say(type(thing).__name__)
        for key, value in thing.items():
            self._take(key)
            self._take(value)
        self._say("end")

    def _set(self, thing: Iterable[Any]) -> None:
        # A set has no order, and hashes of text differ from run to run.
        readers = [(_Reader(exact=self._exact, lines=self._lines), one) for one in thing]
        self._say(type(thing).__name__, *sorted(reader.digest(one) for reader, one in readers))
        for reader, _ in readers:
            self._join(reader)

    def _join(self, reader: _Reader) -> None:
        self._used |= reader._used
        self._live |= reader._live
        self._roots |= reader._roots
        self._packages |= reader._packages
        self._trees += reader._trees
        self._folders |= reader._folders
        for name, texts in reader._values.items():
            self._values.setdefault(name, set()).update(texts)
        self.words |= reader.words
        self.seeing |= reader.seeing
        self.texts |= reader.texts

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
        if self._is_by_name(function):
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

    def _hold(self, name: str, value: Any) -> None:
        """Keep the text of a path for the reads of files by this name."""
        several = value if isinstance(value, tuple | list | set | frozenset) else (value,)
        for one in several:
            if isinstance(one, str | PurePath):
                self._values.setdefault(name, set()).add(str(one))

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
                self._take(known[name])
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
        if self._is_by_name(kind):
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
                self._take(value)
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
                self._take(vars(self._live[name])[key])

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

    def _is_by_name(self, thing: Any) -> bool:
        """Tell whether a function or class is one of Python's or of an installed package, by its name."""
        module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
        if module in (None, "__main__", "__mp_main__") or is_users(module, file_of(module)):
            return False
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found is thing

    def _is_users_class(self, kind: type) -> bool:
        return not self._is_by_name(kind)

    def _installed(self, module: str | None, name: str) -> None:
        if name in IMPORTERS | LOADERS or (module == "builtins" and name in EVALUATORS):
            raise Opaque(f"what {name} loads, by another name")
        self._packages.add((module or "").partition(".")[0])
        self._say("installed", module, name)

    def _partial(self, thing: functools.partial[Any]) -> None:
        self._say("partial")
        self._take(thing.func)
        self._take(thing.args)
        self._take(thing.keywords)

    def _method(self, thing: types.MethodType) -> None:
        self._say("method")
        self._take(thing.__func__)
        self._take(thing.__self__)

    def _builtin(self, thing: types.BuiltinFunctionType) -> None:
        self._say("builtin", thing.__qualname__)
        owner = thing.__self__
        if owner is not None and not isinstance(owner, types.ModuleType):
            self._take(owner)
        else:
            self._installed(thing.__module__, thing.__qualname__)

    def _wrapper(self, thing: Any) -> None:
        self._say(type(thing).__name__)
        self._take(thing.__func__)

    def _property(self, thing: property) -> None:
        self._say("property")
        self._sequence((thing.fget, thing.fset, thing.fdel))

    def _enum(self, thing: enum.Enum) -> None:
        self._say("enum", thing.name)
        self._take(type(thing))

    def _type_variable(self, thing: Any) -> None:
        flags = ("__covariant__", "__contravariant__")
        self._say(type(thing).__name__, thing.__name__, *(getattr(thing, f, "") for f in flags))
        self._take(getattr(thing, "__bound__", None))
        self._take(getattr(thing, "__constraints__", ()))

    def _new_type(self, thing: Any) -> None:
        self._say("new type", thing.__name__)
        self._take(thing.__supertype__)

    def _forward(self, thing: typing.ForwardRef) -> None:
        self._say("forward", thing.__forward_arg__)

    def _pattern(self, thing: re.Pattern[Any]) -> None:
        self._say("pattern", repr(thing.pattern), thing.flags)

    def _object(self, thing: Any) -> None:
        kind = type(thing)
        if hasattr(thing, "jsonValue") and kind.__module__.startswith("pyspark."):
            self._say("type of Spark", thing.json())
            return
        if kind.__module__ == "pyspark.sql.udf":
            self._say("function of Spark")
            self._sequence((thing.func, thing.returnType, thing.evalType, thing.deterministic))
            return
        if "_jvm" in getattr(thing, "__dict__", {}) or kind.__module__.startswith("py4j"):
            raise Opaque(kind.__name__)
        if kind.__name__ in _WITHOUT_VALUE and kind.__module__ in ("_thread", "threading"):
            self._say("lock")
            return
        self._say("object")
        self._take(kind)
        if not self._is_by_name(kind) or kind.__module__.startswith("pyspark."):
            self._held(thing, kind)
            if not any(_holds_content(base) for base in kind.__mro__):
                return
        self._reduced(thing)

    def _held(self, thing: Any, kind: type) -> None:
        held = dict(getattr(thing, "__dict__", {}))
        for name, value in held.items():
            self._hold(name, value)
        self._mapping(held)
        for name in _slots(kind):
            self._say(name)
            self._hold(name, getattr(thing, name, None))
            self._take(getattr(thing, name, None))

    def _reduced(self, thing: Any) -> None:
        # The object's own support for pickling; no copy is made here.
        try:
            reduced = thing.__reduce_ex__(4)
        except Exception as err:
            raise Opaque(type(thing).__name__) from err
        self._say("object of", type(thing).__module__, type(thing).__qualname__)
        if isinstance(reduced, str):
            self._global(thing, reduced)
            return
        for part in reduced[:3]:
            self._take(part)
        for parts in reduced[3:5]:
            self._sequence([*(parts or ())])

    def _global(self, thing: Any, name: str) -> None:
        # It is copied by its name alone; ``lru_cache`` and others keep the function that they wrap.
        self._say(name)
        if hasattr(thing, "__wrapped__"):
            self._take(thing.__wrapped__)
        elif is_users(module := getattr(thing, "__module__", None), file_of(module)):
            raise Opaque(type(thing).__name__)


_KINDS: Final[Mapping[type, Any]] = {
    tuple: _Reader._sequence,
    list: _Reader._sequence,
    dict: _Reader._mapping,
    types.MappingProxyType: _Reader._mapping,
    set: _Reader._set,
    frozenset: _Reader._set,
    types.CodeType: _Reader._code,
    types.ModuleType: _Reader._module,
    types.MethodType: _Reader._method,
    types.BuiltinFunctionType: _Reader._builtin,
    staticmethod: _Reader._wrapper,
    classmethod: _Reader._wrapper,
    property: _Reader._property,
    functools.partial: _Reader._partial,
    re.Pattern: _Reader._pattern,
    typing.TypeVar: _Reader._type_variable,
    typing.ParamSpec: _Reader._type_variable,
    typing.TypeVarTuple: _Reader._type_variable,
    typing.NewType: _Reader._new_type,
    typing.ForwardRef: _Reader._forward,
    types.UnionType: lambda reader, thing: reader._sequence(thing.__args__),
}


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


def _holds_content(base: type) -> bool:
    """Tell whether objects of a class hold more than attributes, e.g. items."""
    return base is not object and not base.__flags__ & _HEAP


def _registered(kind: abc.ABCMeta) -> Iterator[type]:
    """Yield the classes that count as subclasses of an abstract one."""
    dump = getattr(sys.modules.get("_abc"), "_get_dump", None)
    for one in dump(kind)[0] if dump is not None else ():
        if (found := one()) is not None:
            yield found


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for one in inspect.getmro(kind):
        slots = one.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
