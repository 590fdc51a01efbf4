"""
The settings of a ``DataStreamWriter``: name, checkpoint, format, mode, trigger.

They are recorded from calls of its public methods, which get their arguments unchanged. The fields of the JVM's
writer are private and moved between 3.5 and 4.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_streaming.driver.code.functions import Closure, closure_of

_OPTION: Final = "checkpointlocation"
_SESSION_OPTION: Final = "spark.sql.streaming.checkpointLocation"
_SAID: Final = "_airflow_streaming_said"
"""Where a writer keeps its settings."""
_FUNCTIONS: Final = {"foreach": "foreach", "foreachBatch": "foreachbatch"}


def location_of(writer: Any, given: Mapping[str, Any], name: str | None) -> str | None:
    """
    Return where the script wants a query's checkpoint; ``None`` where it does not say.

    :param given: What ``start`` or ``toTable`` was called with.
    """
    chosen = location_in(given.get("options", {})) or location_in(said_on(writer).options)
    return chosen or _session_location(writer._spark, name)


def location_in(options: Mapping[str, Any]) -> str | None:
    """Return the checkpoint location among writer options, whose names know no case."""
    chosen = [value for key, value in options.items() if key.lower() == _OPTION and value]
    return str(chosen[-1]) if chosen else None


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """
    The settings of one writer so far.

    :param function: Name of the function of ``foreach`` or ``foreachBatch``.
    :param closure: Everything that this function reaches.
    :param path: Given to ``start``; ``table`` to ``toTable``.
    :param name: Name of the query; ``sink_name`` of the sink, which commits of version 3 record.
    """

    format: str = ""
    output_mode: str = ""
    partitioned_by: tuple[str, ...] = ()
    processing_trigger: str = ""
    function: str = ""
    closure: Closure = field(default_factory=Closure)
    path: str = ""
    table: str = ""
    name: str = ""
    sink_name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def begun(self, given: Mapping[str, Any]) -> WriterSettings:
        """Return it with the arguments of ``start`` or ``toTable``."""
        path = given.get("path")
        return replace(
            self.with_options(given.get("options", {})),
            format=_text(given.get("format")) or self.format,
            output_mode=_text(given.get("outputMode")) or self.output_mode,
            partitioned_by=_columns((given.get("partitionBy") or self.partitioned_by,)),
            path=_text(path) or self.path,
            table=_text(given.get("tableName")),
            name=_text(given.get("queryName")) or self.name,
        )

    def with_options(self, options: Mapping[str, Any]) -> WriterSettings:
        """Return it with options, whose names know no case."""
        given = {key.lower(): option_text(value) for key, value in options.items()}
        return replace(self, options={**self.options, **given})


Note = Callable[[WriterSettings, tuple[Any, ...], Mapping[str, Any]], WriterSettings]


def said_on(writer: Any) -> WriterSettings:
    kept = writer.__dict__.get(_SAID)
    return kept if isinstance(kept, WriterSettings) else WriterSettings()


def name_of(writer: Any, given: Mapping[str, Any]) -> str | None:
    """
    Return the name of a query; ``None`` for a query without a name.

    :param given: Arguments of ``start`` or ``toTable``.
    """
    return given.get("queryName") or said_on(writer).name or None


def name_query(writer: Any, given: Mapping[str, Any]) -> str | None:
    """Return the name of a query, and keep a name of ``start`` for the writer, as pyspark does."""
    name = name_of(writer, given)
    writer.__dict__[_SAID] = replace(said_on(writer), name=name or "")
    return name


def listen(writer: type) -> None:
    """Patch the class of writers to record the settings of each writer."""
    for name, note in _NOTES.items():
        original = writer.__dict__.get(name)
        if original is not None:
            setattr(writer, name, _listening(original, note))


def option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _session_location(session: Any, name: str | None) -> str | None:
    # Spark's own rule: the folder of the session's configuration, and in it the query's name.
    folder = session.conf.get(_SESSION_OPTION, "")
    return f"{str(folder).rstrip('/')}/{name}" if folder and name else None


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
    def note(
        settings: WriterSettings, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> WriterSettings:
        function = _first(args, kwargs)
        called = getattr(function, "__qualname__", None) or type(function).__qualname__
        closure = closure_of(function, in_driver=name == "foreachBatch")
        return replace(settings, format=_FUNCTIONS[name], function=str(called), closure=closure)

    return note


def _of_option(
    settings: WriterSettings, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> WriterSettings:
    given = {**dict(zip(("key", "value"), args, strict=False)), **kwargs}
    return settings.with_options({str(given.get("key")): given.get("value")})


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
    # Only the JVM's writer has it up to 4.3.
    "name": lambda said, args, kwargs: replace(said, sink_name=_text(_first(args, kwargs))),
    "queryName": lambda said, args, kwargs: replace(said, name=_text(_first(args, kwargs))),
}
