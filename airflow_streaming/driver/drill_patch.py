"""
What a drill changes in pyspark, so that the user's script runs unchanged and touches nothing.

A query starts on its scratch copy, whatever location the script chose; it writes to the ``noop``
sink, runs one batch and ends before ``start`` returns. What the script registers to be called
(``foreachBatch``, ``foreach``, listeners) is left out, and sources may not clean up what they read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from airflow_streaming.core.checkpoint.drill import is_kept_back
from airflow_streaming.driver.intercept import (
    CONNECT_REFUSAL,
    call_original,
    is_connect,
    location_in,
    note_name,
    note_option,
    note_options,
    notes_of,
    patch_method,
    session_location,
)
from airflow_streaming.exceptions import DriverRefusal

_CLEANER: Final = "cleansource"
_SCHEMA_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"
_NOT_OURS: Final = frozenset({"checkpointlocation", "path"})


class Starter:
    """A writer that starts its query harmlessly."""

    def __init__(self, writer: Any, start: Any) -> None:
        self._writer, self._start = writer, start

    @property
    def session(self) -> Any:
        return self._writer._spark

    def begin(self, copy: str, *, once: bool, checks_schema: bool) -> Any:
        """
        Start the query on a copy of its checkpoint, its output discarded.

        :param once: Run the one batch that is uncommitted; else what there is of new input.
        :param checks_schema: Have Spark compare the plan's state schema with the checkpoint's.
        """
        writer = self._writer
        # Past the patches: this is not what the script chose.
        jwrite = writer._jwrite.format("noop").option("checkpointLocation", copy)
        # Plans and commits off the batch's path, which no drill could wait for.
        writer._jwrite = jwrite.option("asyncProgressTrackingEnabled", "false")
        writer.trigger(once=True) if once else writer.trigger(availableNow=True)
        with _setting(self.session, _SCHEMA_CHECK, str(checks_schema).lower()):
            return self._start(writer)


class Asked(NamedTuple):
    """
    A query that the script wants to start.

    :param location: The checkpoint location it chose, ``None`` when it chose none.
    """

    writer: Starter
    name: str | None
    location: str | None


class Patches:
    """
    The patches on pyspark.

    :param rehearse: Called instead of starting a query; returns what the script gets.
    """

    def __init__(self, rehearse: Callable[[Asked], Any]) -> None:
        self._rehearse = rehearse

    def install(self) -> None:
        """
        Patch pyspark.

        :raises DriverRefusal: the script would get a session of Spark Connect.
        """
        _check_classic(is_connect(os.environ, {}))
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

        self.patch_writer(DataStreamWriter)
        patch_reader(DataStreamReader)
        patch_manager(StreamingQueryManager)
        patch_builder(SparkSession.Builder)

    def patch_writer(self, writer: type) -> None:
        """Patch the class that starts queries."""
        patch_method(writer, "queryName", note_name)
        patch_method(writer, "option", note_option)
        patch_method(writer, "options", note_options)
        for name in ("foreachBatch", "foreach"):
            patch_method(writer, name, _leave_out)
        start = writer.__dict__["start"]
        for name in ("start", "toTable"):
            patch_method(writer, name, lambda _, writer, given: self._start(start, writer, given))

    def _start(self, start: Any, writer: Any, given: Mapping[str, Any]) -> Any:
        options = given.get("options", {})
        if given.get("queryName") is not None:
            writer.queryName(given["queryName"])
        writer.options(**{k: v for k, v in options.items() if k.lower() not in _NOT_OURS})
        if given.get("outputMode") is not None:
            writer.outputMode(given["outputMode"])
        notes = notes_of(writer)
        chosen = location_in(options) or notes.location
        location = chosen or session_location(writer._spark, notes.name)
        return self._rehearse(Asked(Starter(writer, start), notes.name, location))


@contextlib.contextmanager
def _setting(session: Any, key: str, value: str) -> Iterator[None]:
    # A query takes a copy of the session's settings when it starts.
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        session.conf.unset(key) if before is None else session.conf.set(key, before)


def patch_reader(reader: type) -> None:
    """Keep sources from deleting or moving the files they have read."""
    patch_method(reader, "option", _keep_source_option)
    for name in ("options", "load"):
        patch_method(reader, name, _keep_source_options)


def patch_manager(manager: type) -> None:
    """Patch what is common to all queries of a session."""
    patch_method(manager, "addListener", lambda *_: None)
    patch_method(manager, "awaitAnyTermination", _end_script)


def patch_builder(builder: type) -> None:
    """Keep a session that the script builds on this host, and to itself."""
    for name in ("getOrCreate", "create", "remote"):
        if name in builder.__dict__:
            patch_method(builder, name, _build)


def _leave_out(_: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    return writer


def _keep_source_option(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    value = "off" if given["key"].lower() == _CLEANER else given["value"]
    return original(reader, given["key"], value)


def _keep_source_options(original: Any, reader: Any, given: Mapping[str, Any]) -> Any:
    options = {
        key: "off" if key.lower() == _CLEANER else value
        for key, value in given.get("options", {}).items()
    }
    return call_original(original, reader, {**given, "options": options})


def _end_script(*_: Any) -> None:
    # Every query has ended by the time its start returned: who waits for any has started all.
    raise SystemExit(0)


def _build(original: Any, builder: Any, given: Mapping[str, Any]) -> Any:
    options = getattr(builder, "_options", {})
    _check_classic(original.__name__ == "remote" or is_connect(os.environ, options))
    for key in [key for key in options if is_kept_back(key)]:
        del options[key]
    session = original(builder, **given)
    _check_classic(type(session).__module__.startswith("pyspark.sql.connect"))
    return session


def _check_classic(connect: bool) -> None:
    if connect:
        raise DriverRefusal(CONNECT_REFUSAL)
