"""
The patches of a drill or rehearsal on pyspark, with which a script runs on scratch copies only.

Sources do not clean up files. A consumer group of the script belongs to the running stream, so a drill has its
own group. Batches may become smaller than the script makes them, never larger.

A query starts on its scratch copy instead of the location in the script. Its output goes to the ``noop`` sink or
to a function of the job, and the query ends before ``start`` returns. Functions and listeners that the script
registers (``foreachBatch``, ``foreach``) are not called.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from airflow_streaming.driver.jobs.chosen_sink import ChosenSink, chosen_sink
from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.driver.patching import call_original, patch_method
from airflow_streaming.driver.plan.writer_settings import (
    WriterSettings,
    listen,
    location_of,
    name_of,
    said_on,
)
from airflow_streaming.driver.script import check_classic, is_connect
from airflow_streaming.model.jobs.drill import DrilledQuery, is_kept_back
from airflow_streaming.model.spark.failures import with_core
from airflow_streaming.model.uris import to_hadoop

_CLEANER: Final = "cleansource"
_LOSS: Final = "failondataloss"
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

_SCHEMA_CHECK: Final = "spark.sql.streaming.stateStore.stateSchemaCheck"
_NOT_OURS: Final = frozenset({"checkpointlocation", "path"})
_LEFT_OUT: Final = "_airflow_streaming_left_out"
Take = Callable[[Any, int], None]
"""Is given the rows of a batch and its number, as ``foreachBatch`` gives them."""


def commits_of(copy: str) -> set[int]:
    folder = Path(copy) / "commits"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return {int(name) for name in names if name.isdecimal()}


def sentence_of(error: QueryError) -> str:
    """Return the message of an error in one line, without the words of py4j around it."""
    core = error.core
    if core and error.exception_class == "Py4JJavaError":
        return core
    return with_core(error.message, core or "")


class Absent:
    """
    The result of ``start`` for a query that is not in the backup.

    It has the members of a query that scripts use. The script fails with the name of any other member.
    """

    isActive = False
    lastProgress = None

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.id = self.runId = str(uuid.uuid4())

    @property
    def status(self) -> dict[str, Any]:
        """Return Spark's status of a query that has ended."""
        return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[Any]:
        return []

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Return at once, as for a query that has ended."""
        return None if timeout is None else True

    def exception(self) -> None:
        """Return no error."""

    def processAllAvailable(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def explain(self, extended: bool = False) -> None:
        """Do nothing."""


class SourceRules:
    """
    Changes the options of sources.

    :param limits: Most records or files of one batch, by option; none by default.
    :param fails_on_loss: As of ``Bounds``.
    """

    def __init__(
        self, limits: Mapping[str, int] | None = None, *, fails_on_loss: bool = False
    ) -> None:
        self._limits, self._fails_on_loss = dict(limits or {}), fails_on_loss
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
        """Return the value of an option that replaces the value of the script."""
        name = key.lower()
        if name == _CLEANER:
            return "off"
        if name in _GROUPS and value is not None:
            return self._group
        if name == _LOSS and self._fails_on_loss:
            return "true"
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
                # Set on the JVM's reader: the patches would record it as an option of the script.
                reader._jreader = reader._jreader.option(key, str(limit))
        return call_original(original, reader, given)


def _note(reader: Any, *keys: str) -> None:
    if any(key.lower() in _LIMITING for key in keys):
        reader.__dict__[_NOTES] = True


class Starter:
    """
    A writer that starts its query harmlessly.

    :param start: The method that starts it, unpatched; ``foreach_batch`` the method that sets a function,
        unpatched.
    :param said: The sink of the script with its options.
    """

    def __init__(
        self,
        writer: Any,
        start: Any,
        foreach_batch: Any = None,
        said: WriterSettings | None = None,
    ) -> None:
        self._writer, self._start, self._foreach_batch = writer, start, foreach_batch
        self._said = said or WriterSettings()

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

    def sink(self) -> ChosenSink | None:
        """Return the sink that the script chose, with the results of Spark's checks."""
        return chosen_sink(self._writer, self._said)

    def begin(self, copy: str, *, once: bool, checks_schema: bool, take: Take | None = None) -> Any:
        """
        Start the query on a copy of its checkpoint, its output discarded.

        :param once: Run only the uncommitted batch; else all new input.
        :param checks_schema: Have Spark compare the plan's state schema with the checkpoint's.
        :param take: Gets every batch, and must run it by one action.
        """
        writer = self._writer
        # Set on the JVM's writer: the patches would record it as an option of the script.
        jwrite = writer._jwrite.format("noop").option("checkpointLocation", copy)
        # Plans and commits off the batch's path, which no drill could wait for.
        writer._jwrite = jwrite.option("asyncProgressTrackingEnabled", "false")
        if take is not None:
            self._foreach_batch(writer, take)
        writer.trigger(once=True) if once else writer.trigger(availableNow=True)
        with _setting(self.session, _SCHEMA_CHECK, str(checks_schema).lower()):
            return self._start(writer)


class QueryStart(NamedTuple):
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

    :param rehearse: Called instead of starting a query; returns the result of ``start``.
    :param sources: Changes the options of sources.
    """

    def __init__(
        self, rehearse: Callable[[QueryStart], Any], sources: SourceRules | None = None
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
        start, foreach_batch = writer.__dict__["start"], writer.__dict__["foreachBatch"]
        for name in ("foreachBatch", "foreach"):
            patch_method(writer, name, _leave_out)
        for name in ("partitionBy", "clusterBy"):
            if name in writer.__dict__:
                setattr(writer, name, _pass_over)

        def begin(_: Any, writer: Any, given: Mapping[str, Any]) -> Any:
            said = said_on(writer).begun(given)
            return self._start(Starter(writer, start, foreach_batch, said), writer, given)

        for name in ("start", "toTable"):
            patch_method(writer, name, begin)
        listen(writer)

    def _start(self, starter: Starter, writer: Any, given: Mapping[str, Any]) -> Any:
        options = given.get("options", {})
        if given.get("queryName") is not None:
            writer.queryName(given["queryName"])
        writer.options(**{k: v for k, v in options.items() if k.lower() not in _NOT_OURS})
        if given.get("outputMode") is not None:
            writer.outputMode(given["outputMode"])
        name = name_of(writer, given)
        return self._rehearse(QueryStart(starter, name, location_of(writer, given, name)))


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
    """Patch the class that holds all queries of a session."""
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


def find_query(
    queries: Sequence[DrilledQuery], start: QueryStart, ran: Collection[str]
) -> DrilledQuery | None:
    """
    Return the query that the script wants to start, ``None`` when the checkpoints do not have it.

    :param ran: Folders of the queries that were started before.
    """
    place = None if start.location is None else place_of(start.location)
    for query in queries:
        if place is not None and place == place_of(query.checkpoint):
            return query
    names = {start.name, None if place is None else place.rpartition("/")[2]} - {None, ""}
    for query in queries:
        if query.folder in names:
            return query
    # A single checkpoint, and a script that has been moved to another place since.
    alone = len(queries) == 1 and not queries[0].folder and not ran
    return queries[0] if alone else None


def place_of(uri: str) -> str:
    """Return a location in one spelling: Hadoop writes ``file:/x``, people ``/x`` or ``s3://x``."""
    local = re.sub(r"^file:/+", "/", uri)
    return to_hadoop(local.rstrip("/"))
