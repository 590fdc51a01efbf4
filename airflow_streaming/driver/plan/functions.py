"""
Fingerprints of the user's Python functions: equal only where the code and all it reaches is equal.

Spark's plans never show the body of a function. A fingerprint covers: code without its line
numbers, constants, closure cells, defaults, annotations, the globals named in the code, classes
with their methods, objects with their attributes. Of a user's module it covers the syntax tree with
the trees of its imports, loaded or not. Code of Python itself and of installed packages counts by
its name and version. A function's own name does not count, so a rename alone is no change.

Code or objects that cannot be analyzed make the fingerprint opaque, and gates treat it as
different. The same holds for code that loads other code by a computed name or text
(``import_module``, ``exec`` ...). A literal name is followed to its module.
"""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

from airflow_streaming.driver.plan.code_imports import (
    EVALUATORS,
    IMPORTERS,
    LOADERS,
    Opaque,
    codes_of,
    file_named,
    file_of,
    globals_of,
    imports_of,
    imports_of_module,
    is_users,
    loaded_by_code,
    loaded_by_module,
    names_within,
    refuse_loaders,
    source_of,
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


_own = OwnPlaces()


def set_own_places(places: OwnPlaces) -> None:
    """Take the places of this process's deployment for marks in every later fingerprint."""
    global _own
    _own = places


def own_places() -> OwnPlaces:
    """Return the places of this process's deployment."""
    return _own


def fingerprint(function: Any) -> str:
    """
    Return the fingerprint of a function or an object that is called, ``opaque:...`` of others.

    It ends with a mark for each place of the deployment that the function uses, e.g. ``{output}``.
    """
    try:
        return _Reader().fingerprint(function)
    except Opaque as why:
        return f"{OPAQUE} {why}"
    except Exception as err:  # noqa: BLE001 - the user's objects may raise anything
        return f"{OPAQUE} {type(err).__name__}"


class _Reader:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._modules: set[str] = set()
        self._depth = 0
        self._used: set[str] = set()

    def fingerprint(self, thing: Any) -> str:
        digest = self.digest(thing)
        return digest + "".join(mark for mark in _MARKS if mark in self._used)

    def digest(self, thing: Any) -> str:
        version = ".".join(map(str, sys.version_info[:2]))
        self._say("python", version)
        self._take(thing, is_root=True)
        return self._hash.hexdigest()[:20]

    def _say(self, *parts: object) -> None:
        for part in parts:
            data = str(part).encode("utf-8", "surrogatepass")
            self._hash.update(str(len(data)).encode() + b":" + data)

    def _say_plain(self, name: str, thing: Any) -> None:
        if isinstance(thing, str) and (marked := _own.marked(thing)) != thing:
            self._used |= {mark for mark in _MARKS if mark in marked}
            self._say(name, repr(marked))
        else:
            self._say(name, repr(thing))

    def _path(self, thing: PurePath) -> None:
        self._say("path")
        self._say_plain(type(thing).__name__, str(thing))

    def _take(self, thing: Any, *, is_root: bool = False) -> None:
        if isinstance(thing, _PLAIN) and type(thing) in _PLAIN:
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
        for kinds, read in _KINDS:
            if isinstance(thing, kinds):
                read(self, thing)
                return
        if isinstance(thing, types.FunctionType):
            self._function(thing, is_root=is_root)
        elif isinstance(thing, type):
            self._class(thing)
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
        readers = [(_Reader(), one) for one in thing]
        self._say(type(thing).__name__, *sorted(reader.digest(one) for reader, one in readers))
        self._used.update(*(reader._used for reader, _ in readers))

    def _code(self, code: types.CodeType, doc: str | None = None) -> None:
        refuse_loaders(code.co_names)
        self._say("code", code.co_code.hex(), code.co_flags)
        self._say(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self._say(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._say(getattr(code, "co_exceptiontable", b"").hex())
        for place, one in enumerate(code.co_consts):
            self._take("" if place == 0 and doc is not None and one == doc else one)

    def _function(self, function: types.FunctionType, *, is_root: bool = False) -> None:
        if not is_users(function.__module__, function.__code__.co_filename):
            self._installed(function.__module__, function.__qualname__)
            return
        self._say("function", "" if is_root else function.__name__)
        self._code(function.__code__, function.__doc__)
        self._take(function.__defaults__)
        self._take(function.__kwdefaults__)
        self._take(dict(function.__annotations__))
        for cell in function.__closure__ or ():
            self._cell(cell)
        if function.__dict__:
            self._take({k: v for k, v in function.__dict__.items() if k != "__wrapped__"})
            self._take(function.__dict__.get("__wrapped__"))
        self._globals(function)

    def _cell(self, cell: Any) -> None:
        try:
            inner = cell.cell_contents
        except ValueError:
            self._say("empty cell")
        else:
            self._take(inner)

    def _globals(self, function: types.FunctionType) -> None:
        known = function.__globals__
        for name in sorted({*globals_of(function.__code__)}):
            if name in IMPORTERS and name in getattr(known.get(name), "__name__", ""):
                continue  # every call of it is checked
            if name in known:
                self._say("global", name)
                self._take(known[name])
            elif name in EVALUATORS:
                raise Opaque(f"code that {name} makes")
        package = str(known.get("__package__") or "")
        for name in sorted({*imports_of(function.__code__)}):
            for full in (name, *names_within(package, name)):
                if full == name or file_named(full):
                    self._module_named(full)
        for code in codes_of(function.__code__):
            for name in loaded_by_code(code):
                self._module_named(name)

    def _class(self, kind: type) -> None:
        if not is_users(kind.__module__, file_of(kind.__module__)):
            self._installed(kind.__module__, kind.__qualname__)
            return
        self._say("class", kind.__name__)
        self._sequence(kind.__bases__)
        for name, value in kind.__dict__.items():
            if name not in _NOT_OF_CLASSES and not isinstance(value, _SLOTS):
                self._say(name)
                self._take(value)

    def _module(self, module: types.ModuleType) -> None:
        self._module_named(module.__name__)

    def _module_named(self, name: str) -> None:
        if name in self._modules:
            self._say("module", name)
            return
        self._modules.add(name)
        module = sys.modules.get(name)
        file = file_named(name)
        if (module is None and not file) or not is_users(name, file):
            self._installed(name, "")
            return
        if not file.endswith(".py"):
            raise Opaque(f"module {name}")
        tree = ast.parse(source_of(name, file))
        self._say("module", name, ast.dump(_without_docs(tree)))
        package = name if Path(file).stem == "__init__" else name.rpartition(".")[0]
        for imported in sorted(set(imports_of_module(tree, package))):
            self._module_named(imported)
        for loaded in sorted(loaded_by_module(tree)):
            self._module_named(loaded)
        for key, value in sorted(vars(module).items() if module else ()):
            if not key.startswith("__") and type(value) in _PLAIN:
                self._say_plain(key, value)

    def _installed(self, module: str | None, name: str) -> None:
        if name in IMPORTERS | LOADERS or (module == "builtins" and name in EVALUATORS):
            raise Opaque(f"what {name} loads, by another name")
        top = (module or "").partition(".")[0]
        version = getattr(sys.modules.get(top), "__version__", "")
        self._say("installed", module, name, version if isinstance(version, str) else "")

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

    def _pattern(self, thing: re.Pattern[Any]) -> None:
        self._say("pattern", repr(thing.pattern), thing.flags)

    def _object(self, thing: Any) -> None:
        kind = type(thing)
        if hasattr(thing, "jsonValue") and kind.__module__.startswith("pyspark."):
            self._say("type of Spark", thing.json())
            return
        if "_jvm" in getattr(thing, "__dict__", {}) or kind.__module__.startswith("py4j"):
            raise Opaque(kind.__name__)
        if is_users(kind.__module__, file_of(kind.__module__)) or _is_sparks(kind):
            self._say("object")
            self._take(kind)
            self._mapping(dict(getattr(thing, "__dict__", {})))
            for name in _slots(kind):
                self._say(name)
                self._take(getattr(thing, name, None))
            return
        self._reduced(thing)

    def _reduced(self, thing: Any) -> None:
        # The object's own support for pickling; no copy is made here.
        try:
            told = thing.__reduce_ex__(4)
        except Exception as err:
            raise Opaque(type(thing).__name__) from err
        self._say("object of", type(thing).__module__, type(thing).__qualname__)
        if isinstance(told, str):
            self._global(thing, told)
            return
        for part in told[:3]:
            self._take(part)
        for parts in told[3:5]:
            self._sequence(parts or ())

    def _global(self, thing: Any, name: str) -> None:
        # It is copied by its name alone; ``lru_cache`` and others keep the function that they wrap.
        self._say(name)
        if hasattr(thing, "__wrapped__"):
            self._take(thing.__wrapped__)
        elif is_users(module := getattr(thing, "__module__", None), file_of(module)):
            raise Opaque(type(thing).__name__)


_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
_KINDS: Final[tuple[tuple[Any, Any], ...]] = (
    (enum.Enum, _Reader._enum),
    ((tuple, list), _Reader._sequence),
    ((dict, types.MappingProxyType), _Reader._mapping),
    ((set, frozenset), _Reader._set),
    (types.CodeType, _Reader._code),
    (types.ModuleType, _Reader._module),
    (types.MethodType, _Reader._method),
    (types.BuiltinFunctionType, _Reader._builtin),
    ((staticmethod, classmethod), _Reader._wrapper),
    (property, _Reader._property),
    (functools.partial, _Reader._partial),
    (re.Pattern, _Reader._pattern),
    (PurePath, _Reader._path),
)


def _without_docs(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _is_sparks(kind: type) -> bool:
    return kind.__module__.startswith("pyspark.")


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for one in inspect.getmro(kind):
        told = one.__dict__.get("__slots__", ())
        found += [told] if isinstance(told, str) else list(told)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
