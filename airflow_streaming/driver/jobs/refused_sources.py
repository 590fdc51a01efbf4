"""
The settings of a ``DataStreamReader``, recorded for a source that Spark does not open.

The plan shows a source that Spark opens. A refused source has no plan: its format and options are known from the
reader's public methods only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_streaming.driver.patching import call_original, patch_method
from airflow_streaming.driver.plan.sources import TOPICS, places_of
from airflow_streaming.model.spark.conf import redact
from airflow_streaming.model.spark.plan import Column, RefusedSource, SourcePlan, columns_of
from airflow_streaming.model.spark.secrets import mask_password

Refused = Callable[[RefusedSource], None]
_SAID: Final = "_airflow_streaming_reader"
_FILES: Final = ("csv", "json", "orc", "parquet", "text", "xml")
_OPENING: Final = ("load", *_FILES)
_OF_FILES: Final = frozenset({*_FILES, "avro"})
_NO_OPTIONS: Final = frozenset({"path", "format", "schema", "self"})


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
            refused(RefusedSource(source=_source(name, reader, given), why=sentence(err)))
            raise

    return opened


def _source(name: str, reader: Any, given: Mapping[str, Any]) -> SourcePlan:
    said = _said_on(reader)
    form = given.get("format") or (said.get("format") if name == "load" else name) or "parquet"
    called = str(form) if "." in str(form) else str(form).lower()
    named = {k: v for k, v in given.items() if k not in ("options", *_NO_OPTIONS)}
    told = {**said.get("options", {}), **named, **given.get("options", {})}
    options = {str(k).lower(): _text(v) for k, v in told.items() if v is not None}
    if given.get("path"):
        options["path"] = _text(given["path"])
    is_file = called in _OF_FILES
    return SourcePlan(
        source="file" if is_file else called,
        format=called if is_file else "",
        paths=tuple(map(mask_password, places_of(called, options))),
        schema=_columns(given.get("schema") or said.get("schema")),
        options={k: v for k, v in redact(options).items() if k not in ("path", *TOPICS)},
    )


def _columns(schema: Any) -> tuple[Column, ...]:
    if schema is None:
        return ()
    if hasattr(schema, "jsonValue"):
        return columns_of(schema.jsonValue())
    return (Column(name="*", type=str(schema)),)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _said_on(reader: Any) -> dict[str, Any]:
    said: dict[str, Any] = reader.__dict__.setdefault(_SAID, {})
    return said


def _note_format(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _said_on(reader)["format"] = given["source"]
    return original(reader, **given)


def _note_option(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _said_on(reader).setdefault("options", {})[given["key"]] = given["value"]
    return original(reader, **given)


def _note_options(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _said_on(reader).setdefault("options", {}).update(given.get("options", {}))
    return call_original(original, reader, given)


def _note_schema(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    _said_on(reader)["schema"] = given["schema"]
    return original(reader, **given)
