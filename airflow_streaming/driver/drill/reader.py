"""
What a drill changes in sources, so that reading leaves no trace and stays small.

Sources may not clean up what they have read. A consumer group that the script has chosen belongs to
the running stream; a drill reads under one of its own. Batches may be made smaller than the script
makes them, never larger.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.driver.patching import call_original, patch_method

_CLEANER: Final = "cleansource"
_GROUPS: Final = frozenset({"kafka.group.id", "groupidprefix"})
_NOTES: Final = "_airflow_streaming_limited"
_LIMITING: Final = frozenset(
    {
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "rowsperbatch",
    }
)
"""Options by which a script limits its batches; Spark refuses some of them beside others."""

_READING: Final = ("load", "table", "csv", "json", "orc", "parquet", "text", "xml")


class SourceRules:
    """
    What becomes of the options of sources.

    :param limits: Most records or files of one batch, by option; none by default.
    """

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self._limits = dict(limits or {})
        self._group = f"airflow-streaming-drill-{uuid.uuid4().hex[:12]}"

    def patch(self, reader: type) -> None:
        """Patch the class that reads streams."""
        patch_method(reader, "option", self._option)
        for name in ("options", "load"):
            patch_method(reader, name, self._options)
        for name in _READING if self._limits else ():
            if name in reader.__dict__:
                patch_method(reader, name, self._read)

    def kept(self, key: str, value: Any) -> Any:
        """Return what an option is set to, whatever the script set it to."""
        name = key.lower()
        if name == _CLEANER:
            return "off"
        if name in _GROUPS and value is not None:
            return self._group
        return self._limited(name, value)

    def _limited(self, name: str, value: Any) -> Any:
        counterpart = "maxoffsetspertrigger" if name == "minoffsetspertrigger" else name
        limits = {key.lower(): limit for key, limit in self._limits.items()}
        limit = limits.get(counterpart)
        text = str(value).strip()
        return str(min(limit, int(text))) if limit and text.isdecimal() else value

    def _option(self, original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
        _note(reader, given["key"])
        return original(reader, given["key"], self.kept(given["key"], given["value"]))

    def _options(self, original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
        options = {key: self.kept(key, value) for key, value in given.get("options", {}).items()}
        _note(reader, *options)
        return call_original(original, reader, {**given, "options": options})

    def _read(self, original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
        _note(reader, *given.get("options", {}))
        if not reader.__dict__.get(_NOTES):
            for key, limit in self._limits.items():
                # Past the patches: this is not what the script chose.
                reader._jreader = reader._jreader.option(key, str(limit))
        return call_original(original, reader, given)


def _note(reader: Any, *keys: str) -> None:
    if any(key.lower() in _LIMITING for key in keys):
        reader.__dict__[_NOTES] = True
