"""
Whether a call fits, as one sentence for the author of a dag.

In both directions: a value, operator or function of this package is called with the names of arguments
that an author has written, and a function that an author has given is called by this package.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from airflow_streaming.exceptions import SpecError

_PACKAGE: Final = __name__.split(".")[0]
_AIRFLOWS_OWN: Final = "_airflow_"
"""How the names of arguments begin that Airflow hands to itself."""
_IMPLIED: Final = ("self", "cls")
_SEVERAL: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Called:
    """
    What an author's function is called with, for ``Annotated[Callable[..., Any], Called(...)]``.

    :param given: Its arguments, by position, e.g. ``a Soaked``.
    """

    given: tuple[str, ...]

    def wrong(self, where: object, function: Callable[..., Any]) -> str | None:
        """Return why a function cannot be called so; ``None`` if it can, or has no signature."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return None
        try:
            signature.bind(*self.given)
        except TypeError:
            name = getattr(function, "__name__", None) or type(function).__name__
            return (
                f"{where} is called with {' and '.join(self.given)}, which {name}{signature} does not "
                "take. Give a function with a parameter for each, and defaults for all others."
            )
        return None


Notifier = Annotated[Callable[[Any], Any], Called(("a context",))]
"""A notifier of Airflow, or any callable that takes a context."""


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Return the known name that another is most likely a slip of; ``None`` when it is like no one."""
    return next(iter(difflib.get_close_matches(name[:80], list(known), n=1, cutoff=likeness)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """
    What something can be called with.

    :param of: Its name, e.g. ``StreamSpec``.
    :param names: What can be given by name, those that can be given by position first.
    :param by_position: How many can be given by position.
    :param implied: How many of these Python gives itself, as ``self``.
    :param needed: What must be given.
    :param listed: The names that are told where none is near; by default all.
    """

    of: str
    names: tuple[str, ...]
    by_position: int = 0
    implied: int = 0
    needed: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def wrong(self, positions: int, names: Collection[str]) -> str | None:
        """
        Return what is wrong with a call, as a sentence; ``None`` when its names fit.

        :param positions: How many arguments are given by position.
        :param names: The names of the others.
        """
        odd = next((name for name in names if name not in self.names), None)
        if odd is not None:
            near = nearest(odd, self.names)
            known = ", ".join(self.listed or self.names)
            instead = f"did you mean {near!r}?" if near else f"give one of {known or 'none'}."
            return f"{self.of} has no parameter {odd!r:.80}; {instead}"
        if positions > self.by_position:
            most = self.by_position - self.implied
            named = ", ".join(f"{name}=..." for name in self.names[self.by_position :][:3])
            given = positions - self.implied
            return (
                f"{self.of} takes {most or 'no'} arguments by position, not {given}; "
                f"write {named or 'fewer'}"
            )
        placed = self.names[:positions]
        twice = next((name for name in placed if name in names), None)
        if twice is not None:
            return f"{self.of} is given {twice} by position and by name; give it once."
        missing = [name for name in self.needed if name not in (*placed, *names)]
        needed = " and ".join(filter(None, (", ".join(missing[:-1]), *missing[-1:])))
        return f"{self.of} needs {needed}; write {missing[0]}=..." if missing else None


@functools.cache
def parameters_of(function: Callable[..., Any], of: str) -> Parameters | None:
    """Return what a function or a constructor takes; ``None`` where it takes any name or number."""
    taken = list(inspect.signature(function).parameters.values())
    if any(one.kind in _SEVERAL for one in taken):
        return None
    return Parameters(
        of=of,
        names=tuple(one.name for one in taken),
        by_position=sum(one.kind is not one.KEYWORD_ONLY for one in taken),
        implied=sum(one.name in _IMPLIED for one in taken[:1]),
        needed=tuple(one.name for one in taken if one.default is one.empty),
        listed=tuple(one.name for one in taken if one.name not in _IMPLIED),
    )


@functools.cache
def _parameters_of_task(kind: type) -> Parameters:
    """Return the names that a task's class and those that it is made of take."""
    ours: dict[str, None] = {}
    others: dict[str, None] = {}
    for one in kind.__mro__:
        if "__init__" in vars(one) and one is not object:
            taken = inspect.signature(one.__init__).parameters.values()  # type: ignore[misc]
            named = [it.name for it in taken if it.name not in _IMPLIED and it.kind not in _SEVERAL]
            of = ours if one.__module__.split(".")[0] == _PACKAGE else others
            of.update(dict.fromkeys(named))
    return Parameters(of=kind.__name__, names=(*ours, *others), listed=tuple(ours))


class NamedParameters:
    """
    A task that refuses an argument of a name it does not have.

    Airflow itself says of ``strem=...`` that ``stream`` is missing, and of what class it does not say.
    A subclass with a constructor of its own may take what it likes; there the rest is Airflow's to check.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        names = [name for name in kwargs if not name.startswith(_AIRFLOWS_OWN)]
        if names and cls.__init__.__module__.split(".")[0] == _PACKAGE:
            known = _parameters_of_task(cls)  # type: ignore[arg-type]
            if not all(name in known.names for name in names):
                raise SpecError(f"{known.wrong(0, names)}{written_at()}")
        return super().__new__(cls)


def written_at() -> str:
    """
    Return file and line of the author's call, as the end of a message.

    Airflow shows the last two frames of a dag that cannot be imported, and both would be of this
    package. Empty for what is checked while a task runs.
    """
    frame = inspect.currentframe()
    while frame is not None and _is_between(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None or not (file := frame.f_code.co_filename).endswith(".py"):
        return ""
    is_airflow = frame.f_globals.get("__name__", "").split(".")[0] == "airflow"
    return "" if is_airflow else f" See {file.rpartition('/')[2]}, line {frame.f_lineno}."


def _is_between(module: str) -> bool:
    """Tell whether a module only passes on what an author has written."""
    return module.split(".")[0] == _PACKAGE or module.startswith("airflow.sdk.bases.")
