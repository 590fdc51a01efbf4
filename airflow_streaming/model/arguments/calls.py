"""
Whether a call fits, as one sentence for the author of a dag.

In both directions: a value, operator or function of this package is called with the names of arguments
that an author has written, and a function that an author has given is called by this package.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self

from airflow_streaming.exceptions import SpecError

_PACKAGE: Final = __name__.split(".")[0]
_AIRFLOWS_OWN: Final = "_airflow_"
"""How the names of arguments begin that Airflow hands to itself."""
_IMPLIED: Final = ("self", "cls")
_SEVERAL: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class NeverRan(TypeError):
    """A function has returned a coroutine or a generator in place of a value: nothing was done."""


@dataclass(frozen=True, slots=True)
class Called:
    """
    The arguments of an author's function, for ``Annotated[Callable[..., Any], Called(...)]``.

    It is called once, by a plain call in a task: a coroutine function, a generator function or a
    class is refused, because its body would never run.

    :param given: Its arguments, by position, e.g. ``a Soaked``.
    :param is_notifier: A notifier of Airflow is also accepted.
    """

    given: tuple[str, ...]
    is_notifier: bool = False

    def wrong(self, where: object, function: Callable[..., Any]) -> str | None:
        """Return why a function cannot be called so; ``None`` if it can, or has no signature."""
        if kind := _never_runs(function):
            return f"{where} is {kind}; give a plain function, whose body runs when it is called."
        if isinstance(function, type):
            instead = f"an instance, {function.__name__}(...)" if self.is_notifier else "a function"
            return f"{where} is the class {function.__name__}; give {instead}."
        if not self.is_notifier and _is_notifier(type(function)):
            return (
                f"{where} is the notifier {type(function).__name__}, which only sends a message; give a "
                f"function that takes {' and '.join(self.given)}."
            )
        try:
            # A decorator may pass an argument itself, or drop one: the decorated signature counts.
            signature = inspect.signature(function, follow_wrapped=False)
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


def run(function: Callable[..., Any], *given: Any) -> Any:
    """
    Call an author's function and return its result.

    :raises NeverRan: the result is a coroutine, another awaitable or a generator, as of ``lambda
        to, before: move(to)`` with an async ``move``; a coroutine is closed.
    """
    returned = function(*given)
    if (
        inspect.isawaitable(returned)
        or inspect.isgenerator(returned)
        or inspect.isasyncgen(returned)
    ):
        if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
            returned.close()
        name = getattr(function, "__name__", None) or type(function).__name__
        raise NeverRan(
            f"{name} returned a {type(returned).__name__}, so its work never ran. Give a function that "
            "does it before it returns, e.g. with asyncio.run(...)."
        )
    return returned


def name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _never_runs(function: Callable[..., Any]) -> str | None:
    """Return the kind of a function whose body does not run when it is called."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return None
    for one in (function, type(function).__call__):
        if inspect.iscoroutinefunction(one):
            return "an async function"
        if inspect.isasyncgenfunction(one) or inspect.isgeneratorfunction(one):
            return "a generator function"
    return None


def _is_notifier(kind: type) -> bool:
    # By name, as nothing of Airflow is imported here.
    return any(
        one.__name__ == "BaseNotifier" and one.__module__.startswith("airflow.")
        for one in kind.__mro__
    )


Notifier = Annotated[Callable[[Any], Any], Called(("a context",), is_notifier=True)]
"""A notifier of Airflow, or any callable that takes a context."""
Notifiers = Notifier | Sequence[Notifier] | None
"""The notifiers of one argument: one, several, or none."""


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Return the known name that another is most likely a slip of; ``None`` when it is like no one."""
    import difflib  # not at dag parse

    return next(iter(difflib.get_close_matches(name[:80], list(known), n=1, cutoff=likeness)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """
    The parameters of a function or class.

    :param of: Its name, e.g. ``StreamSpec``.
    :param names: Parameters that can be passed by name, positional ones first.
    :param by_position: How many can be passed by position.
    :param implied: How many of these Python passes itself, as ``self``.
    :param needed: Required parameters.
    :param listed: The names that a message lists when no name is similar; by default all.
    """

    of: str
    names: tuple[str, ...]
    by_position: int = 0
    implied: int = 0
    needed: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def wrong(self, positions: int, names: Collection[str]) -> str | None:
        """
        Return the error of a call, as a sentence; ``None`` when its names fit.

        :param positions: How many arguments are passed by position.
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
    """Return the parameters of a function or a constructor; ``None`` if it accepts any."""
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
    """Return the parameter names of a task's class and its bases."""
    ours: dict[str, None] = {}
    others: dict[str, None] = {}
    for one in kind.__mro__:
        if "__init__" in vars(one) and one is not object:
            taken = inspect.signature(one.__init__).parameters.values()  # type: ignore[misc]
            named = [it.name for it in taken if it.name not in _IMPLIED and it.kind not in _SEVERAL]
            of = ours if one.__module__.split(".")[0] == _PACKAGE else others
            of.update(dict.fromkeys(named))
    return Parameters(of=kind.__name__, names=(*ours, *others), listed=tuple(ours))


@dataclass(frozen=True, slots=True)
class Way:
    """
    One of several alternative ways to pass a value to a task, e.g. to select a stream.

    :param by: Parameters that choose it.
    :param more: Parameters that belong to it.
    """

    by: tuple[str, ...]
    more: tuple[str, ...] = ()


def overruled(
    ways: Sequence[Way], written: Collection[str], given: Mapping[str, Any]
) -> frozenset[str]:
    """
    Return the parameters whose values come from ``default_args`` and are overridden by another way.

    The way is chosen by the task's own arguments, or else by the only complete way. If no way, or
    more than one, qualifies, no value is overridden, and the task reports the error.

    :param written: The task's own arguments other than ``None``.
    :param given: These and the values of ``default_args``, as far as known yet.
    """
    chosen = [way for way in ways if any(name in written for name in way.by)] or [
        way for way in ways if all(given.get(name) is not None for name in way.by)
    ]
    if len(chosen) != 1:
        return frozenset()
    others = (way for way in ways if way is not chosen[0])
    return frozenset(name for way in others for name in (*way.by, *way.more)).difference(written)


class NamedParameters:
    """
    A task that refuses an unknown argument, and knows which arguments were written on it.

    Airflow itself reports for ``strem=...`` that ``stream`` is missing, and does not name the
    class. A subclass with its own constructor may take other arguments; Airflow checks the rest
    there.

    Airflow fills in the ``default_args`` of the dag, its task groups and the task as if they were
    written on the task. They are shared by many tasks, so the task's own arguments take precedence:
    see ``either``.
    """

    either: ClassVar[Sequence[Sequence[Way]]] = ()
    """Alternative ways to pass a value, of which one is used; one sequence for each value."""
    _written: frozenset[str] = frozenset()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        names = [name for name in kwargs if not name.startswith(_AIRFLOWS_OWN)]
        if names and cls.__init__.__module__.split(".")[0] == _PACKAGE:
            known = _parameters_of_task(cls)  # type: ignore[arg-type]
            if not all(name in known.names for name in names):
                raise SpecError(f"{known.wrong(0, names)}{written_at()}")
        task = super().__new__(cls)
        # Not by the setattr of Airflow's operators, which are not made yet.
        written = frozenset(name for name in names if kwargs[name] is not None)
        object.__setattr__(task, "_written", written)
        return task

    def without_overruled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments without the values of ``default_args`` that the task's own override."""
        void = frozenset[str]().union(
            *(overruled(ways, self._written, given) for ways in self.either)
        )
        return {name: it for name, it in given.items() if it is None or name not in void}


def written_at() -> str:
    """
    Return file and line of the author's call, as the end of a message.

    Airflow shows the last two frames of a dag that cannot be imported, and both would be of this
    package. Empty for a check while a task runs.
    """
    frame = inspect.currentframe()
    while frame is not None and _is_between(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None or not (file := frame.f_code.co_filename).endswith(".py"):
        return ""
    is_airflow = frame.f_globals.get("__name__", "").split(".")[0] == "airflow"
    return "" if is_airflow else f" See {file.rpartition('/')[2]}, line {frame.f_lineno}."


def _is_between(module: str) -> bool:
    """Tell whether a module only passes an author's arguments on."""
    return module.split(".")[0] == _PACKAGE or module.startswith("airflow.sdk.bases.")
