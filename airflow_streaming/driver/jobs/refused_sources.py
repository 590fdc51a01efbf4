"""
The settings of a ``DataStreamReader``, recorded for a source that Spark does not open.

The plan shows a source that Spark opens. A refused source has no plan: its format and options are known from the
reader's public methods only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.patching import call_original, patch_method
from airflow_streaming.driver.plan.checks import FILES
from airflow_streaming.driver.plan.reading import default_format
from airflow_streaming.driver.plan.sources import TOPICS, places_of
from airflow_streaming.driver.plan.writer_settings import option_text
from airflow_streaming.model.plan.schema import Column, columns_of
from airflow_streaming.model.spark.plan import RefusedSource, SourcePlan
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import mask_password

Refused = Callable[[RefusedSource], None]
_SETTINGS: Final = "_airflow_streaming_reader"
_LOAD: Final = "load"
_OPENING: Final = (_LOAD, *sorted(FILES))
_NO_OPTIONS: Final = frozenset({"format", "schema", "options"})


@dataclass(slots=True)
class _ReaderSettings:
    """The settings of one reader so far; the keys of its options are in small letters."""

    format: str = ""
    schema: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def set_options(self, options: Mapping[str, Any]) -> None:
        self.options |= {key.lower(): value for key, value in options.items()}


def listen_to_reader(reader: type, refused: Refused, sentence: Callable[[Exception], str]) -> None:
    """
    Have the class of readers report every source that Spark does not open.

    :param refused: Called before the script gets Spark's error.
    :param sentence: Returns the sentence of an error.
    """
    patch_method(reader, "format", _note_format)
    patch_method(reader, "option", _note_option)
    patch_method(reader, "options", _note_options)
    patch_method(reader, "schema", _note_schema)
    for name in _OPENING:
        if name in reader.__dict__:
            patch_method(reader, name, _opening(name, refused, sentence))


def _opening(name: str, refused: Refused, sentence: Callable[[Exception], str]) -> Any:
    def opened(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
        try:
            return call_original(original, reader, given)
        except Exception as err:
            with ErrorBoundary().contained("Reading the source that Spark refuses"):
                refused(RefusedSource(source=_source(name, reader, given), why=sentence(err)))
            raise

    return opened


def _source(name: str, reader: Any, given: Mapping[str, Any]) -> SourcePlan:
    settings = _settings_of(reader)
    form = name
    if name == _LOAD:
        form = str(given.get("format") or settings.format or default_format(reader._spark))
    form = form if "." in form else form.lower()
    named = {key: value for key, value in given.items() if key not in _NO_OPTIONS}
    settings.set_options({key: value for key, value in named.items() if value is not None})
    settings.set_options(given.get("options", {}))
    options = {k: option_text(v) for k, v in settings.options.items() if v is not None}
    return SourcePlan(
        source="file" if form in FILES else form,
        format=form if form in FILES else "",
        paths=tuple(map(mask_password, places_of(form, options))),
        schema=_columns(given.get("schema") or settings.schema),
        options={k: v for k, v in redact(options).items() if k not in ("path", *TOPICS)},
    )


def _columns(schema: Any) -> tuple[Column, ...]:
    if schema is None:
        return ()
    if hasattr(schema, "jsonValue"):
        return columns_of(schema.jsonValue())
    return (Column(name="*", type=str(schema)),)


def _settings_of(reader: Any) -> _ReaderSettings:
    found: _ReaderSettings = reader.__dict__.setdefault(_SETTINGS, _ReaderSettings())
    return found


def _note_format(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _settings_of(reader).format = given["source"]
    return original(reader, **given)


def _note_option(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _settings_of(reader).set_options({given["key"]: given["value"]})
    return original(reader, **given)


def _note_options(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _settings_of(reader).set_options(given.get("options", {}))
    return call_original(original, reader, given)


def _note_schema(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _settings_of(reader).schema = given["schema"]
    return original(reader, **given)
