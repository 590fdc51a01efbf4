"""
What a drill changes in pyspark, so that the user's script runs unchanged and touches nothing.

A query starts on its scratch copy, whatever location the script chose; its output goes to the
``noop`` sink or to a function of ours, and it has ended before ``start`` returns. What the script
registers to be called (``foreachBatch``, ``foreach``, listeners) is left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from airflow_streaming.core.checkpoint.drill import is_kept_back
from airflow_streaming.driver.connect import check_classic, is_connect
from airflow_streaming.driver.drill.reader import SourceRules
from airflow_streaming.driver.notes import location_of, notes_of, take_notes
from airflow_streaming.driver.patching import patch_method

_SCHEMA_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"
_NOT_OURS: Final = frozenset({"checkpointlocation", "path"})
_LEFT_OUT: Final = "_airflow_streaming_left_out"

Take = Callable[[Any, int], None]
"""Is given the rows of a batch and its number, as ``foreachBatch`` gives them."""


class Starter:
    """
    A writer that starts its query harmlessly.

    :param start: The method that starts it; ``foreach_batch`` the one that sets a function, both
        as they were before they were patched.
    """

    def __init__(self, writer: Any, start: Any, foreach_batch: Any = None) -> None:
        self._writer, self._start, self._foreach_batch = writer, start, foreach_batch

    @property
    def session(self) -> Any:
        return self._writer._spark

    @property
    def rows(self) -> Any:
        """Return the streaming rows that the query would write."""
        return self._writer._df

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the functions that the script has set and that are not called."""
        return tuple(self._writer.__dict__.get(_LEFT_OUT, ()))

    def begin(self, copy: str, *, once: bool, checks_schema: bool, take: Take | None = None) -> Any:
        """
        Start the query on a copy of its checkpoint, its output discarded.

        :param once: Run the one batch that is uncommitted; else what there is of new input.
        :param checks_schema: Have Spark compare the plan's state schema with the checkpoint's.
        :param take: Gets every batch, and has to run it by one action.
        """
        writer = self._writer
        # Past the patches: this is not what the script chose.
        jwrite = writer._jwrite.format("noop").option("checkpointLocation", copy)
        # Plans and commits off the batch's path, which no drill could wait for.
        writer._jwrite = jwrite.option("asyncProgressTrackingEnabled", "false")
        if take is not None:
            self._foreach_batch(writer, take)
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
    :param sources: What becomes of the options of sources.
    """

    def __init__(
        self, rehearse: Callable[[Asked], Any], sources: SourceRules | None = None
    ) -> None:
        self._rehearse = rehearse
        self._sources = sources or SourceRules()

    def install(self) -> None:
        """
        Patch pyspark.

        :raises DriverRefusal: the script would get a session of Spark Connect.
        """
        check_classic(is_connect(os.environ, {}))
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

        self.patch_writer(DataStreamWriter)
        self._sources.patch(DataStreamReader)
        patch_manager(StreamingQueryManager)
        patch_builder(SparkSession.Builder)

    def patch_writer(self, writer: type) -> None:
        """Patch the class that starts queries."""
        take_notes(writer)
        start, foreach_batch = writer.__dict__["start"], writer.__dict__["foreachBatch"]
        for name in ("foreachBatch", "foreach"):
            patch_method(writer, name, _leave_out)
        for name in ("partitionBy", "clusterBy"):
            if name in writer.__dict__:
                setattr(writer, name, _pass_over)

        def begin(_: Any, writer: Any, given: Mapping[str, Any]) -> Any:
            return self._start(Starter(writer, start, foreach_batch), writer, given)

        for name in ("start", "toTable"):
            patch_method(writer, name, begin)

    def _start(self, starter: Starter, writer: Any, given: Mapping[str, Any]) -> Any:
        options = given.get("options", {})
        if given.get("queryName") is not None:
            writer.queryName(given["queryName"])
        writer.options(**{k: v for k, v in options.items() if k.lower() not in _NOT_OURS})
        if given.get("outputMode") is not None:
            writer.outputMode(given["outputMode"])
        name = notes_of(writer).name
        return self._rehearse(Asked(starter, name, location_of(writer, given, name)))


@contextlib.contextmanager
def _setting(session: Any, key: str, value: str) -> Iterator[None]:
    # A query takes a copy of the session's settings when it starts.
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        session.conf.unset(key) if before is None else session.conf.set(key, before)


def patch_manager(manager: type) -> None:
    """Patch what is common to all queries of a session."""
    patch_method(manager, "addListener", lambda *_: None)
    patch_method(manager, "awaitAnyTermination", _end_script)


def patch_builder(builder: type) -> None:
    """Keep a session that the script builds on this host, and to itself."""
    for name in ("getOrCreate", "create", "remote"):
        if name in builder.__dict__:
            patch_method(builder, name, _build)


def _leave_out(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    writer.__dict__.setdefault(_LEFT_OUT, []).append(original.__name__)
    return writer


def _pass_over(writer: Any, *_: Any) -> Any:
    # Neither noop nor a function of ours can be partitioned.
    return writer


def _end_script(*_: Any) -> None:
    # Every query has ended by the time its start returned: who waits for any has started all.
    raise SystemExit(0)


def _build(original: Any, builder: Any, given: Mapping[str, Any]) -> Any:
    options = getattr(builder, "_options", {})
    check_classic(original.__name__ == "remote" or is_connect(os.environ, options))
    for key in [key for key in options if is_kept_back(key)]:
        del options[key]
    session = original(builder, **given)
    check_classic(type(session).__module__.startswith("pyspark.sql.connect"))
    return session
