"""
Values of a dag's author, checked against the declaration of the value, operator or function.

A wrong field or argument is refused at the author's line, by its name. Python itself would accept
it, and fail later, in a task or a trigger, with an error that names neither the field nor the
value.

The annotations are the rule: kinds, members of lists and mappings, keys of a ``TypedDict``, choices
of an enum, bounds as ``Annotated[int, Range(least=1)]``, and the arguments of a function as
``Annotated[Callable[..., Any], Called(("a context",))]``. A number or a duration without bounds of
its own is finite, not negative, and fits into 64 bits. Where a text may replace a choice or a
switch, it is one of its words, or a template.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Callable as CallableKind
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from math import isfinite
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import (
    Called,
    NamedParameters,
    parameters_of,
    written_at,
)
from airflow_streaming.model.durations import duration_text

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_BEYOND: Final = 2**63
"""Records and the JVM hold 64 bits."""
_SWITCH: Final = ("true", "false")

_NAMES: Final[Mapping[Any, str]] = {
    NoneType: "None",
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    timedelta: "a timedelta",
    datetime: "a datetime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """
    Bounds of a number or a duration, for ``Annotated``.

    :param least: The least that is allowed; ``None`` for no bound.
    :param above: It must be greater than this.
    :param most: The most that is allowed.
    """

    least: Any = None
    above: Any = None
    most: Any = None

    def __contains__(self, number: Any) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"from {_text(self.least)} to {_text(self.most)}"
        bounds = (("of at least", self.least), ("above", self.above), ("of at most", self.most))
        return " and ".join(f"{words} {_text(at)}" for words, at in bounds if at is not None)


ANY_SIGN: Final = Range()
_NOT_NEGATIVE: Final = Range(least=0)
_NOT_BACKWARDS: Final = Range(least=timedelta(0))
Positive = Annotated[timedelta, Range(above=timedelta(0))]
"""A duration that is longer than nothing."""
Pause = Annotated[timedelta, Range(above=timedelta(0), most=timedelta(days=1))]
"""Time between two looks."""


def is_template(value: object) -> bool:
    """Tell whether a value is filled in by a run."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def is_filled_in(value: object) -> bool:
    """Tell the same; also for another task's result, and a parameter of the dag."""
    return is_template(value) or _is_reference(value)


def _is_reference(value: object) -> bool:
    return callable(getattr(value, "resolve", None)) and hasattr(value, "iter_references")


class _Where(NamedTuple):
    """Where a value stands, e.g. ``conf['spark.x'] of stream 'orders'``."""

    name: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.of}"

    def at(self, key: object) -> _Where:
        return self._replace(name=f"{self.name}[{key!r:.80}]")


class _Left(Enum):
    """The kind of values that are left to the run."""

    NOWHERE = auto()
    TEXTS = auto()
    """A template, where a text may stand."""
    RESULTS = auto()
    """Results of other tasks, too."""
    ANYWHERE = auto()


def check_values(value: Any, *, of: str = "", templated: Collection[str] | None = None) -> None:
    """
    Check that every field of a frozen dataclass matches its declaration.

    A list is accepted for a tuple, a whole number for a float, and an enum's plain text for its
    member.

    :param of: Owner of the fields, for messages such as ``jars of stream 'orders' is 5``; by
        default they are named with the class.
    :param templated: Fields that a run fills in, where a template is always accepted; ``None``: a
        template is accepted for every text.
    :raises SpecError: names the field, its value and valid values.
    """
    kind: Any = type(value)
    for name, hint in _hints_of_fields(kind).items():
        if _is_plain(hint)(getattr(value, name)):
            continue
        given = _member(getattr(value, name), hint)
        if given is not getattr(value, name):
            object.__setattr__(value, name, given)
        where = _Where(name, f" of {of}") if of else _Where(f"{kind.__name__}.{name}")
        is_left = _Left.ANYWHERE if name in (templated or ()) else _Left.NOWHERE
        _check(where, given, hint, _Left.TEXTS if templated is None else is_left)
        if type(given) is list and any(get_origin(one) is tuple for one, _ in _kinds(hint)):
            object.__setattr__(value, name, tuple(given))


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """
    Have the arguments of a public function or operator checked against its annotations.

    Of an operator, templated arguments may hold a template, or another task's result. The task's
    own arguments take precedence over ``default_args``.

    :raises SpecError: by the returned function, names the argument and valid values.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if args and isinstance(args[0], NamedParameters):
            kwargs = args[0].without_overruled(kwargs)  # type: ignore[assignment] # fewer of the same
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            _refuse_names(function, function.__name__, len(args), kwargs)
            return function(*args, **kwargs)  # Python's own error says the rest.
        templated = getattr(given.get("self"), "template_fields", ())
        for name, hint in _hints_of_arguments(function).items():
            if name in given and not _is_plain(hint)(given[name]):
                _check(
                    _Where(name),
                    given[name],
                    hint,
                    # Airflow has a method ``dry_run``, so the field of that argument is ``is_dry_run``.
                    _Left.RESULTS if {name, f"is_{name}"} & {*templated} else _Left.TEXTS,
                )
        return function(*args, **kwargs)

    return call


def named_fields(kind: type[_T]) -> type[_T]:
    """
    Have the names of a value's fields checked where the value is written.

    :raises SpecError: by the constructor of the returned class, with the nearest name that there is.
    """
    init: Callable[..., None] = kind.__init__

    @functools.wraps(init)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError:
            _refuse_names(init, type(self).__name__, len(args) + 1, kwargs)
            raise

    kind.__init__ = call  # type: ignore[method-assign]
    return kind


def _refuse_names(
    function: Callable[..., Any], of: str, positions: int, names: Collection[str]
) -> None:
    known = parameters_of(function, of)
    if known is not None and (wrong := known.wrong(positions, names)):
        raise SpecError(f"{wrong}{written_at()}") from None


def refuse_blank(of: str, **texts: object) -> None:
    """
    Refuse texts that may not be empty.

    :param of: Owner of these fields, e.g. ``SqlPointer``.
    :raises SpecError: names the first blank one.
    """
    for name, text in texts.items():
        if isinstance(text, str) and not text.strip():
            raise SpecError(f"{of}.{name} is empty; give a text that names one.{written_at()}")


def of_named(kind: str, name: object) -> str:
    """Return the owner of fields for a message, e.g. ``stream 'orders'``, for any kind of name."""
    return f"{kind} {name!r:.80}" if isinstance(name, str) else f"a {kind}"


def _member(given: Any, hint: Any) -> Any:
    """Return the member of an enum that a plain text names where only a member may stand."""
    kinds = [kind for kind, _ in _kinds(hint)]
    if not isinstance(given, str) or isinstance(given, Enum) or str in kinds:
        return given
    choices = (one for kind in kinds if _is_choice(kind) for one in kind)
    return next((one for one in choices if one.value == given), given)


@functools.cache
def _hints_of_fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


@functools.cache
def _hints_of_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    several = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    parameters = inspect.signature(function).parameters.values()
    return {
        one.name: hints[one.name]
        for one in parameters
        if one.name in hints and one.kind not in several
    }


@functools.cache
def _is_plain(hint: Any) -> Callable[[Any], bool]:
    """
    Return a quick test that most valid values pass; all other values are checked in full.

    Records are read a thousand times for each time that an author writes one.
    """
    kinds = _kinds(hint)
    tests = [test for kind, bounds in kinds if (test := _plain_test(kind, bounds, _words(kinds)))]
    return lambda given: any(test(given) for test in tests)


def _plain_test(
    kind: Any, bounds: Range | Called | None, words: Sequence[str]
) -> Callable[[Any], bool] | None:
    origin, inner = get_origin(kind), get_args(kind)
    if words and kind in (str, Any, object):
        return None
    if kind is str:
        return _is_plain_text
    if kind in (Any, object):
        return lambda _: True
    if kind in (int, float, timedelta):
        usual = _NOT_BACKWARDS if kind is timedelta else _NOT_NEGATIVE
        return functools.partial(_is_plain_number, kind, bounds or usual)
    if origin in (tuple, Sequence) and inner:
        # A list in the place of a tuple is made one.
        takes, member = (tuple,) if origin is tuple else (tuple, list), _is_plain(inner[0])
        return lambda given: type(given) in takes and all(map(member, given))
    if origin is Mapping:
        key, value = map(_is_plain, inner)
        return lambda given: (
            type(given) is dict and all(map(key, given)) and all(map(value, given.values()))
        )
    is_class = origin is None and isinstance(kind, type)
    return (lambda given: type(given) is kind) if is_class and bounds is None else None


def _is_plain_text(given: Any) -> bool:
    return type(given) is str and given.isascii() and "\0" not in given


def _is_plain_number(kind: Any, bounds: Any, given: Any) -> bool:
    is_kind = type(given) is kind or (kind is float and type(given) is int)
    # Infinite numbers, and numbers beyond 64 bits, get their own messages.
    return is_kind and (kind is timedelta or -_BEYOND < given < _BEYOND) and given in bounds


def _check(where: _Where, given: object, hint: Any, left: _Left) -> None:
    is_quoted = not any(_may_be_secret(kind) for kind, _ in _kinds(hint))
    if wrong := _wrong(where, given, hint, left, is_quoted=is_quoted):
        raise SpecError(f"{wrong}{written_at()}")


def _wrong(where: _Where, given: Any, hint: Any, left: _Left, *, is_quoted: bool) -> str | None:
    """Return the error of a value, as a sentence; ``None`` for a valid value."""
    kinds = _kinds(hint)
    if _is_left(given, kinds, left):
        return None
    if isinstance(given, str) and (words := _words(kinds)):
        is_word = (given.strip().lower() if words is _SWITCH else given) in words
        return None if is_word else _instead(where, given, kinds, left, is_quoted=is_quoted)
    found: str | None = None
    for kind, bounds in kinds:
        if kind in (Any, object):
            return None
        if _is_of(given, kind):
            found = _wrong_key(where, given, kind) or _wrong_value(where, given, bounds)
            for place, member, inner in () if found else _members(where, given, kind):
                found = found or _wrong(place, member, inner, left, is_quoted=is_quoted)
            if found is None:
                return None
    return found or _instead(where, given, kinds, left, is_quoted=is_quoted)


def _is_left(given: object, kinds: Sequence[tuple[Any, Any]], left: _Left) -> bool:
    if left is _Left.ANYWHERE:
        return is_filled_in(given)
    takes_text = left is not _Left.NOWHERE and any(kind is str for kind, _ in kinds)
    return takes_text and (is_template(given) or (left is _Left.RESULTS and _is_reference(given)))


@functools.cache
def _kinds(hint: Any) -> tuple[tuple[Any, Range | Called | None], ...]:
    """Return the kinds that a hint names, each with the bounds or the call that it has."""
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        bounds = next((one for one in extras if isinstance(one, Range | Called)), None)
        return tuple((kind, bounds or own) for kind, own in _kinds(inner))
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for one in get_args(hint) for kind in _kinds(one))
    return ((NoneType if hint is None else hint, None),)


def _words(kinds: Sequence[tuple[Any, Any]]) -> tuple[str, ...]:
    """Return the words that a text can be where it stands for a choice or a switch; else none."""
    named = [kind for kind, _ in kinds]
    if str not in named:
        return ()
    choices = [one.value for kind in named if _is_choice(kind) for one in kind]
    is_switch = bool in named and {*named} <= {bool, str, NoneType}
    return tuple(choices) or (_SWITCH if is_switch else ())


def _is_of(given: object, kind: Any) -> bool:
    if is_typeddict(kind):
        return isinstance(given, Mapping)
    origin = get_origin(kind) or kind
    if origin is tuple:
        return isinstance(given, tuple | list)
    if origin is CallableKind:
        return callable(given)
    if kind is float:
        return type(given) in (float, int)
    if kind is int:
        # A bool is an int for Python, and one in place of a number is a mistake.
        return isinstance(given, int) and not isinstance(given, bool)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(given, name) for name in _parts_of(kind))
    # A text is a sequence of its letters, but never a valid sequence here.
    is_letters = isinstance(given, str | bytes) and not issubclass(origin, str | bytes)
    return isinstance(given, origin) and not (is_letters and issubclass(origin, Collection))


@functools.cache
def _parts_of(protocol: Any) -> tuple[str, ...]:
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


def _wrong_key(where: _Where, given: Any, kind: Any) -> str | None:
    if not is_typeddict(kind):
        return None
    known = get_type_hints(kind)
    odd = next((key for key in given if key not in known), None)
    if odd is None:
        return None
    return f"{where} has {odd!r:.80}, which is not known; give {', '.join(known)}."


def _members(where: _Where, given: Any, kind: Any) -> Iterator[tuple[_Where, Any, Any]]:
    """Yield the members of a list or a mapping: place, member, and expected type."""
    inner = get_args(kind)
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        for key, member in given.items():
            yield where.at(key), member, hints[key]
    elif not inner or get_origin(kind) is CallableKind:
        return
    elif isinstance(given, Mapping):
        for key, member in given.items():
            yield _Where(f"a key of {where}"), key, inner[0]
            yield where.at(key), member, inner[1]
    else:
        for index, member in enumerate(given):
            yield where.at(index), member, inner[0]


def _wrong_value(where: _Where, given: Any, bounds: Range | Called | None) -> str | None:
    if isinstance(bounds, Called):
        return bounds.wrong(where, given)
    if isinstance(given, str):
        return _wrong_text(where, given)
    if isinstance(given, bool) or not isinstance(given, int | float | timedelta):
        return None
    if isinstance(given, float) and not isfinite(given):
        return f"{where} is {given!r}; give a number that is finite."
    if isinstance(given, int) and not -_BEYOND <= given < _BEYOND:
        return f"{where} is {_shown(given)}; give a number that fits into 64 bits."
    bounds = bounds or (_NOT_BACKWARDS if isinstance(given, timedelta) else _NOT_NEGATIVE)
    if given in bounds:
        return None
    what = "time" if isinstance(given, timedelta) else "number"
    return f"{where} is {_text(given)}; give a {what} {bounds}."


def _wrong_text(where: _Where, given: str) -> str | None:
    if "\0" in given:
        return f"{where} has a NUL character in it; remove it."
    try:
        given.encode()
    except UnicodeEncodeError as err:
        return f"{where} has an invalid character at {err.start}; remove it."
    return None


def _instead(
    where: _Where,
    given: object,
    kinds: Sequence[tuple[Any, Any]],
    left: _Left,
    *,
    is_quoted: bool,
) -> str:
    shown = _shown(given) if is_quoted or given is None else f"of type {type(given).__name__}"
    template = ["a template"] if _words(kinds) and left is not _Left.NOWHERE else []
    path = (
        " Write a path as str(path)."
        if hasattr(given, "__fspath__") and (str, None) in kinds
        else ""
    )
    return f"{where} is {shown}; give {' or '.join([_named_all(kinds), *template])}.{path}"


def _named_all(kinds: Sequence[tuple[Any, Any]]) -> str:
    # Where a text may be one of the words of a choice, "a text" says too little.
    named = [_named(kind) for kind, _ in kinds if kind is not str or not _words(kinds)]
    return " or ".join(dict.fromkeys(named))


def _shown(given: object) -> str:
    if isinstance(given, int) and not -_BEYOND <= given < _BEYOND:
        return f"a number of {given.bit_length()} bits"
    if isinstance(given, str):
        from airflow_streaming.model.spark.secrets import REDACTED, is_secret  # for messages only

        return repr(REDACTED) if is_secret(given) else f"{given!r:.80}"
    is_plain = given is None or isinstance(given, bool | int | float | timedelta | datetime)
    return f"{given!r:.80}" if is_plain else f"of type {type(given).__name__}"


def _text(at: object) -> str:
    if isinstance(at, timedelta):
        return duration_text(at)
    return f"{at:,}" if type(at) is int else f"{at}"


def _may_be_secret(kind: Any) -> bool:
    """Tell whether it is a mapping with free texts, as conf and env."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True).values()
        return any(_is_free_text(_kinds(hint)) for hint in hints)
    if not _is_mapping(kind):
        return False
    return _is_free_text(_kinds(get_args(kind)[1]) if get_args(kind) else ((Any, None),))


def _is_free_text(kinds: tuple[tuple[Any, Range | Called | None], ...]) -> bool:
    named = {kind for kind, _ in kinds}
    return Any in named or (str in named and not _words(kinds))


def _is_choice(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return is_typeddict(kind) or (isinstance(origin, type) and issubclass(origin, Mapping))


def _named(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if kind in _NAMES:
        return _NAMES[kind]
    if _is_choice(kind):
        return ", ".join(one.value for one in kind)
    if origin is CallableKind:
        return "a callable"
    if _is_mapping(kind):
        return "a mapping"
    if isinstance(origin, type) and issubclass(origin, Collection) and get_args(kind):
        inner = _kinds(get_args(kind)[0])
        of = _named_all(inner)
        is_one = len(inner) == 1 and of.startswith("a ")
        return f"a list of {of[2:]}s" if is_one else f"a list of {of}"
    return f"{kind.__name__}(...)"
