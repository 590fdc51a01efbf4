"""
What the script says on a ``DataStreamWriter``: format, mode, partitions, processing trigger.

Learnt from public methods, as the rest of the interception is. Nothing is changed by it: whatever
was called is called as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

_SAID: Final = "_airflow_streaming_said"
_FUNCTIONS: Final = {"foreach": "foreach", "foreachBatch": "foreachbatch"}


@dataclass(frozen=True, slots=True)
class Said:
    """
    What was said on one writer so far.

    :param function: Name of the function of ``foreach`` or ``foreachBatch``.
    :param path: Given to ``start``; ``table`` to ``toTable``.
    """

    format: str = ""
    output_mode: str = ""
    partitioned_by: tuple[str, ...] = ()
    processing_trigger: str = ""
    function: str = ""
    path: str = ""
    table: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def begun(self, given: Mapping[str, Any]) -> Said:
        """Return it with what was given to ``start`` or ``toTable`` besides."""
        path = given.get("path")
        return replace(
            self.with_options(given.get("options", {})),
            format=_text(given.get("format")) or self.format,
            output_mode=_text(given.get("outputMode")) or self.output_mode,
            partitioned_by=_columns((given.get("partitionBy") or self.partitioned_by,)),
            path=_text(path) or self.path,
            table=_text(given.get("tableName")),
        )

    def with_options(self, options: Mapping[str, Any]) -> Said:
        """Return it with options, whose names know no case."""
        told = {key.lower(): _option(value) for key, value in options.items()}
        return replace(self, options={**self.options, **told})


def said_on(writer: Any) -> Said:
    """Return what the script has said on this writer so far."""
    said = writer.__dict__.get(_SAID)
    return said if isinstance(said, Said) else Said()


def listen(writer: type) -> None:
    """Have the class of writers remember what is said on them."""
    for name, note in _NOTES.items():
        original = writer.__dict__.get(name)
        if original is not None:
            setattr(writer, name, _listening(original, note))


Note = Callable[[Said, tuple[Any, ...], Mapping[str, Any]], Said]


def _listening(original: Any, note: Note) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        returned = original(self, *args, **kwargs)
        # Afterwards: what pyspark has refused was not said.
        self.__dict__[_SAID] = note(said_on(self), args, kwargs)
        return returned

    return method


def _first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()), None)


def _of_function(name: str) -> Note:
    def note(said: Said, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Said:
        function = _first(args, kwargs)
        called = getattr(function, "__qualname__", None) or type(function).__qualname__
        return replace(said, format=_FUNCTIONS[name], function=str(called))

    return note


def _of_option(said: Said, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Said:
    given = {**dict(zip(("key", "value"), args, strict=False)), **kwargs}
    return said.with_options({str(given.get("key")): given.get("value")})


_NOTES: Final[Mapping[str, Note]] = {
    "format": lambda said, args, kwargs: replace(said, format=_text(_first(args, kwargs))),
    "outputMode": lambda said, args, kwargs: replace(
        said, output_mode=_text(_first(args, kwargs)) or said.output_mode
    ),
    "partitionBy": lambda said, args, kwargs: replace(
        said, partitioned_by=_columns(args or tuple(kwargs.values()))
    ),
    "clusterBy": lambda said, args, kwargs: said.with_options(
        {"clusterBy": ",".join(_columns(args))}
    ),
    "trigger": lambda said, args, kwargs: replace(said, processing_trigger=_trigger(kwargs)),
    "foreach": _of_function("foreach"),
    "foreachBatch": _of_function("foreachBatch"),
    "option": _of_option,
    "options": lambda said, args, kwargs: said.with_options(kwargs),
}


def _trigger(given: Mapping[str, Any]) -> str:
    for key, words in (("once", "once"), ("availableNow", "available now")):
        if given.get(key):
            return words
    for key, words in (
        ("processingTime", ""),
        ("continuous", "continuous "),
        ("realTime", "real time "),
    ):
        if given.get(key):
            return f"{words}{given[key]}"
    return ""


def _columns(given: tuple[Any, ...]) -> tuple[str, ...]:
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    return tuple(str(column) for column in given)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value)
