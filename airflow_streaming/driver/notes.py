"""
Which name and checkpoint location the script gives a query, noted on its ``DataStreamWriter``.

Learnt from public methods: the fields of the JVM's writer, the other place to learn them from, are
private and moved between 3.5 and 4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.driver.patching import call_original, patch_method

NOTES: Final = "_airflow_streaming_notes"
"""Where a writer keeps them."""

_OPTION: Final = "checkpointlocation"
_SESSION_OPTION: Final = "spark.sql.streaming.checkpointLocation"


@dataclass(slots=True)
class Notes:
    """What the script has said on one ``DataStreamWriter`` so far."""

    name: str | None = None
    location: str | None = None
    gated: bool = False


def take_notes(writer: type) -> None:
    """Patch the class that starts queries, so that what the script says on it is noted."""
    patch_method(writer, "queryName", _note_name)
    patch_method(writer, "option", _note_option)
    patch_method(writer, "options", _note_options)


def notes_of(writer: Any) -> Notes:
    """Return what the script has said on this writer so far."""
    notes: Notes = writer.__dict__.setdefault(NOTES, Notes())
    return notes


def location_of(writer: Any, given: Mapping[str, Any], name: str | None) -> str | None:
    """
    Return where the script wants a query's checkpoint; ``None`` where it does not say.

    :param given: What ``start`` or ``toTable`` was called with.
    :param name: The query's.
    """
    chosen = location_in(given.get("options", {})) or notes_of(writer).location
    return chosen or _session_location(writer._spark, name)


def location_in(options: Mapping[str, Any]) -> str | None:
    """Return the checkpoint location among writer options, whose names know no case."""
    chosen = [value for key, value in options.items() if key.lower() == _OPTION and value]
    return str(chosen[-1]) if chosen else None


def _session_location(session: Any, name: str | None) -> str | None:
    # Spark's own rule: the folder of the session's configuration, and in it the query's name.
    folder = session.conf.get(_SESSION_OPTION, "")
    return f"{str(folder).rstrip('/')}/{name}" if folder and name else None


def _note_name(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    notes_of(writer).name = given["queryName"]
    return original(writer, **given)


def _note_option(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    _note_location(writer, {given["key"]: given["value"]})
    return original(writer, **given)


def _note_options(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    _note_location(writer, given.get("options", {}))
    return call_original(original, writer, given)


def _note_location(writer: Any, options: Mapping[str, Any]) -> None:
    location = location_in(options)
    if location is not None:
        notes_of(writer).location = location
