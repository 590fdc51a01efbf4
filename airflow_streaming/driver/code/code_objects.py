"""
Objects that code holds: a digest of their content, each kind by a row of a table.

An object counts by its name alone only if its module has it under this name and the module is Python's or an
installed package's. Other objects count by their items and attributes, or by the parts that pickling would copy.
"""

from __future__ import annotations

import abc
import enum
import functools
import hashlib
import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final, Self

from airflow_streaming.driver.code.code_imports import Opaque, file_of, is_by_name, is_users
from airflow_streaming.model.spark.own_places import OwnPlaces

MARKS: Final = ("{output}", "{checkpoint}")
MAX_PARTS: Final = 20_000
"""Values that one function may reach; of more it is opaque."""
_MAX_DEPTH: Final = 150
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_WITHOUT_VALUE: Final = frozenset({"lock", "RLock", "Lock", "_RLock"})
"""Types whose objects hold no value."""
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


class Contents(abc.ABC):
    """
    Digest of an object with its content.

    :param exact: Code that it holds may see docstrings, annotations and names of locals.
    :param lines: The code may see numbers of lines.
    """

    def __init__(self, *, exact: bool = False, lines: bool = False) -> None:
        self._exact, self._lines = exact, lines
        self._hash = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._depth = 0
        self._used: set[str] = set()
        self._values: dict[str, set[str]] = {}
        """Texts and paths that names of the code hold."""
        self.texts: set[str] = set()

    @abc.abstractmethod
    def _code(self, code: types.CodeType) -> None:
        """Count compiled code."""

    @abc.abstractmethod
    def _function(self, function: types.FunctionType, *, is_root: bool = False) -> None:
        """Count a function; of a root the name does not count."""

    @abc.abstractmethod
    def _class(self, kind: type) -> None:
        """Count a class with its attributes."""

    @abc.abstractmethod
    def _module(self, module: types.ModuleType) -> None:
        """Count a module that an object holds."""

    @abc.abstractmethod
    def _installed(self, module: str | None, name: str) -> None:
        """Count a function or class by its name, because Python or an installed package has it."""

    def digest(self, thing: Any) -> str:
        self._take(thing)
        return self._hash.hexdigest()[:20]

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
            self._used |= {mark for mark in MARKS if mark in marked}
        return marked

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
        elif isinstance(thing, PurePath) and is_by_name(kind):
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
        readers = [(type(self)(exact=self._exact, lines=self._lines), one) for one in thing]
        self._say(type(thing).__name__, *sorted(reader.digest(one) for reader, one in readers))
        for reader, _ in readers:
            self._join(reader)

    def _path(self, thing: PurePath) -> None:
        self._say("path")
        self._say_plain(type(thing).__name__, str(thing))

    def _join(self, reader: Self) -> None:
        """Add the findings of the reader of a part."""
        self._used |= reader._used
        self.texts |= reader.texts
        for name, texts in reader._values.items():
            self._values.setdefault(name, set()).update(texts)

    def _hold(self, name: str, value: Any) -> None:
        """Keep the text of a path for the reads of files by this name."""
        several = value if isinstance(value, tuple | list | set | frozenset) else (value,)
        for one in several:
            if isinstance(one, str | PurePath):
                self._values.setdefault(name, set()).add(str(one))

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
        if not is_by_name(kind) or kind.__module__.startswith("pyspark."):
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
    tuple: Contents._sequence,
    list: Contents._sequence,
    dict: Contents._mapping,
    types.MappingProxyType: Contents._mapping,
    set: Contents._set,
    frozenset: Contents._set,
    types.CodeType: lambda reader, thing: reader._code(thing),
    types.ModuleType: lambda reader, thing: reader._module(thing),
    types.MethodType: Contents._method,
    types.BuiltinFunctionType: Contents._builtin,
    staticmethod: Contents._wrapper,
    classmethod: Contents._wrapper,
    property: Contents._property,
    functools.partial: Contents._partial,
    re.Pattern: Contents._pattern,
    typing.TypeVar: Contents._type_variable,
    typing.ParamSpec: Contents._type_variable,
    typing.TypeVarTuple: Contents._type_variable,
    typing.NewType: Contents._new_type,
    typing.ForwardRef: Contents._forward,
    types.UnionType: lambda reader, thing: reader._sequence(thing.__args__),
}


def _holds_content(base: type) -> bool:
    """Tell whether objects of a class hold more than attributes, e.g. items."""
    return base is not object and not base.__flags__ & _HEAP


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for one in inspect.getmro(kind):
        slots = one.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
