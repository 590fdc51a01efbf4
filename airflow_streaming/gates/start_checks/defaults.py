"""
The values that Spark uses for options of sources and sinks that a script does not set.

Only values that depend on neither the session nor the release (3.5 to 4.3) are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_FILE_SOURCES: Final = {
    "latestfirst": "false",
    "filenameonly": "false",
    "maxfileage": "7d",
    "recursivefilelookup": "false",
}
_OF_KAFKA_SOURCES: Final = {
    "startingoffsets": "latest",
    "failondataloss": "true",
    "includeheaders": "false",
    "startingoffsetsbytimestampstrategy": "error",
    "groupidprefix": "spark-kafka-source",
    "maxtriggerdelay": "15m",
    "fetchoffset.numretries": "3",
    "kafka.isolation.level": "read_uncommitted",
}
_SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": _OF_KAFKA_SOURCES,
    "json": {**_OF_FILE_SOURCES, "multiline": "false", "mode": "permissive"},
    "csv": {
        **_OF_FILE_SOURCES,
        "multiline": "false",
        "mode": "permissive",
        "header": "false",
        "sep": ",",
        "delimiter": ",",
        "quote": '"',
        "escape": "\\",
    },
    "xml": {**_OF_FILE_SOURCES, "mode": "permissive"},
    "text": {**_OF_FILE_SOURCES, "wholetext": "false"},
    "parquet": _OF_FILE_SOURCES,
    "orc": _OF_FILE_SOURCES,
    "rate": {"rowspersecond": "1", "rampuptime": "0s"},
    "socket": {"includetimestamp": "false"},
}
_SINKS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {"kafka.acks": "all", "kafka.compression.type": "none"},
    "console": {"numrows": "20", "truncate": "true"},
    "csv": {"header": "false", "sep": ",", "delimiter": ",", "compression": "none"},
    "json": {"compression": "none"},
    "text": {"compression": "none"},
}
_EXACT: Final = frozenset({"groupidprefix", "sep", "delimiter", "quote", "escape"})


def is_default_of_source(kind: str, key: str, value: str | None) -> bool:
    """
    Tell whether a source reads the same with an option as without it.

    :param kind: As in ``SourcePlan``; of files the format of the files.
    :param value: ``None`` for an option that is not set.
    """
    return _is_default(_SOURCES.get(kind, {}), key, value)


def is_default_of_sink(kind: str, key: str, value: str | None) -> bool:
    """Tell the same of a sink."""
    return _is_default(_SINKS.get(kind, {}), key, value)


def _is_default(known: Mapping[str, str], key: str, value: str | None) -> bool:
    if key not in known or value is None:
        return key in known
    return (value if key in _EXACT else value.strip().lower()) == known[key]
