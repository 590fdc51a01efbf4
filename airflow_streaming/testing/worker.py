"""
The Spark side of the testing kit: one session that runs scripts on request.

The Python of a Spark installation runs it as a file and not as a module: it needs only Python and
pyspark, and no package of ours in the installation. A request is one line of JSON on standard
input; the reply is one line on the descriptor in ``argv``. Output of scripts and Java goes to
standard output and error, which the kit keeps in a log.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

WITHOUT_CHECKPOINT = frozenset({"memory", "console", "noop"})
"""Sinks of tests, which cannot be restarted from a checkpoint or have no use for one."""


class Execution:
    """
    A run of a script: the queries that it starts, each with its own checkpoint.

    :param checkpoint: Folder of the checkpoints; a query's is named as the query.
    :param to_the_end: Replace the script's processing trigger by ``availableNow``.
    """

    def __init__(self, checkpoint: str, *, to_the_end: bool) -> None:
        self._checkpoint, self._to_the_end = checkpoint, to_the_end
        self.queries: dict[str, Any] = {}
        self.formats: dict[str, str] = {}
        self.waiting = threading.Event()
        self.error: BaseException | None = None

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Start the queries here, and let no script stop the session that all share."""
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        with (
            replaced(DataStreamWriter, "queryName", self._note_name),
            replaced(DataStreamWriter, "format", self._note_format),
            replaced(DataStreamWriter, "start", self._start),
            replaced(DataStreamWriter, "toTable", self._to_table),
            replaced(SparkSession, "stop", lambda original, session: None),
            replaced(StreamingQuery, "awaitTermination", self._await),
            replaced(StreamingQueryManager, "awaitAnyTermination", self._await),
        ):
            yield

    def _await(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.waiting.set()
        return original(*args, **kwargs)

    def _note_name(self, original: Callable[..., Any], writer: Any, queryName: str) -> Any:
        writer._noted_name = queryName
        return original(writer, queryName)

    def _note_format(self, original: Callable[..., Any], writer: Any, source: str) -> Any:
        writer._noted_format = source
        return original(writer, source)

    def _to_table(
        self, original: Callable[..., Any], writer: Any, tableName: str, **named: Any
    ) -> Any:
        return self._keep(writer, named, lambda: original(writer, tableName, **named))

    def _start(
        self, original: Callable[..., Any], writer: Any, path: str | None = None, **named: Any
    ) -> Any:
        return self._keep(writer, named, lambda: original(writer, path, **named))

    def _keep(self, writer: Any, named: dict[str, Any], start: Callable[[], Any]) -> Any:
        kind = str(named.get("format") or getattr(writer, "_noted_format", ""))
        name = str(named.get("queryName") or getattr(writer, "_noted_name", ""))
        if not name:
            name = named["queryName"] = f"query_{len(self.queries) + 1}"
        if self._to_the_end:
            writer.trigger(availableNow=True)
        if kind not in WITHOUT_CHECKPOINT:
            named["checkpointLocation"] = f"{self._checkpoint}/{name}"
        query = start()
        self.queries[name], self.formats[name] = query, kind
        return query

    def finish(self) -> dict[str, Any]:
        """Wait for every query, and return what each did."""
        return {name: self._outcome(name, query) for name, query in self.queries.items()}

    def _outcome(self, name: str, query: Any) -> dict[str, Any]:
        error = None
        try:
            query.awaitTermination()
        except Exception as err:  # noqa: BLE001 - a query may fail of anything
            error = describe(err)
            error["condition"] = condition_of(query) or error["condition"]
        rows = None
        if self.formats[name] == "memory" and error is None:
            rows = rows_of(session().table(name))
        progress = [json.loads(one.json()) for one in query._jsq.recentProgress()]
        return {"id": str(query.id), "progress": progress, "error": error, "rows": rows}


@contextmanager
def replaced(owner: type, name: str, patch: Callable[..., Any]) -> Iterator[None]:
    """Put ``patch(original, self, ...)`` in the place of a method for a while."""
    original = owner.__dict__[name]

    def method(*args: Any, **kwargs: Any) -> Any:
        return patch(original, *args, **kwargs)

    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def put(owner: type, name: str, value: Any) -> Iterator[None]:
    """Put an attribute on the class that has it, for a while."""
    owner = next(cls for cls in owner.__mro__ if name in cls.__dict__)
    original = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


class BatchWriter:
    """Takes a script's calls on a stream's writer, and keeps the rows of one batch computation."""

    def __init__(self, frame: Any, found: dict[str, Any]) -> None:
        self._frame, self._found, self._name = frame, found, ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self

    def queryName(self, name: str) -> BatchWriter:
        self._name = name
        return self

    def start(self, *args: Any, queryName: str | None = None, **kwargs: Any) -> Any:
        """Compute."""
        name = queryName or self._name or f"query_{len(self._found) + 1}"
        self._found[name] = rows_of(self._frame)
        return types.SimpleNamespace(
            name=name,
            isActive=False,
            awaitTermination=lambda timeout=None: True,
            exception=lambda: None,
            stop=lambda: None,
        )

    toTable = start


def run_as_batch(script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a script with every streaming source read at once, and return the rows of each query."""
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQueryManager

    found: dict[str, Any] = {}
    reader = property(lambda spark: spark.read)
    writer = property(lambda frame: BatchWriter(frame, found))
    with (
        replaced(SparkSession, "stop", lambda original, session: None),
        replaced(StreamingQueryManager, "awaitAnyTermination", lambda *args: True),
        put(type(session()), "readStream", reader),
        # From 4.0 frames have a subclass of the class that scripts name.
        put(type(session().range(1)), "writeStream", writer),
    ):
        execute(script, arguments)
    return found


def session() -> Any:
    """Return the session of the running script."""
    from pyspark.sql import SparkSession

    return SparkSession._instantiatedSession


def new_session(base: Any) -> Any:
    """Give the next script a session without settings and views of the one before."""
    from pyspark.sql import SparkSession

    fresh = base.newSession()
    SparkSession._instantiatedSession = fresh
    # From 4.0 the class has another name in Java, and a method that tells it.
    named = getattr(SparkSession, "_get_j_spark_session_class", lambda jvm: jvm.SparkSession)
    java = named(fresh._jvm)
    java.setDefaultSession(fresh._jsparkSession)
    java.setActiveSession(fresh._jsparkSession)
    return fresh


def execute(script: str, arguments: Sequence[str]) -> None:
    """Run a script as ``__main__``; an exit with 0 is an end like any other."""
    before, path = sys.modules["__main__"], [*sys.path]
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=builtins)
    sys.modules["__main__"], sys.argv[:] = module, [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        # To run the user's script is what this process is for.
        exec(compile(Path(script).read_bytes(), script, "exec"), module.__dict__)  # noqa: S102
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise RuntimeError(f"{script} left with {leaving.code!r}.") from leaving
    finally:
        sys.modules["__main__"], sys.path[:] = before, path


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch frame, nested ones as dictionaries."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def describe(err: BaseException) -> dict[str, Any]:
    """Return an error as values: its class, Spark's condition, and its text."""
    condition = None
    for method in ("getCondition", "getErrorClass"):
        if condition is None and (ask := getattr(err, method, None)) is not None:
            condition = ask()
    return {"kind": type(err).__name__, "condition": condition, "text": str(err)[:20_000]}


def newest_batch(query: Any) -> int:
    """Return the newest batch that ran; an idle query's progress names a later one."""
    progress = [json.loads(one.json()) for one in query._jsq.recentProgress()]
    return max((one["batchId"] for one in progress if "addBatch" in one["durationMs"]), default=-1)


def condition_of(query: Any) -> str | None:
    """Return the condition of the innermost error of a query: ``STREAM_FAILED`` is true of all."""
    failure, found = query._jsq.exception(), None
    error = failure.get() if failure.isDefined() else None
    while error is not None:
        # From 4.0 the method has another name.
        for method in ("getErrorClass", "getCondition"):
            with suppress(Exception):  # not every exception of Java has a condition
                found = getattr(error, method)() or found
        error = error.getCause()
    return found


class Worker:
    """
    Answers requests, one after another.

    :param spark: The session that every run's session is made from.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._live: tuple[Execution, threading.Thread, Any] | None = None

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Execute a request; may raise any exception."""
        return getattr(self, f"do_{request['do']}")(**request["with"])

    def do_hello(self) -> Any:
        return {"spark": self._spark.version, "pid": os.getpid()}

    def do_run(
        self,
        script: str,
        arguments: Sequence[str],
        checkpoint: str,
        conf: Mapping[str, str],
        own_trigger: bool,
        py_files: Sequence[str],
    ) -> Any:
        self._begin(conf, py_files)
        execution = Execution(checkpoint, to_the_end=not own_trigger)
        error = None
        with execution.patched():
            try:
                execute(script, arguments)
            except Exception as err:  # noqa: BLE001 - the script may raise anything
                traceback.print_exc()
                error = describe(err)
                self._stop(execution)
            return {"queries": execution.finish(), "error": error}

    def do_batch(
        self,
        script: str,
        arguments: Sequence[str],
        conf: Mapping[str, str],
        py_files: Sequence[str],
    ) -> Any:
        self._begin(conf, py_files)
        return run_as_batch(script, arguments)

    def do_start(
        self,
        script: str,
        arguments: Sequence[str],
        checkpoint: str,
        conf: Mapping[str, str],
        py_files: Sequence[str],
    ) -> Any:
        from pyspark import InheritableThread

        self._begin(conf, py_files)
        execution = Execution(checkpoint, to_the_end=False)
        patches = execution.patched()
        patches.__enter__()

        def run() -> None:
            try:
                execute(script, arguments)
            except Exception as err:  # noqa: BLE001 - the script may raise anything
                execution.error = err
            finally:
                execution.waiting.set()

        thread = InheritableThread(target=run, daemon=True)
        self._live = (execution, thread, patches)
        thread.start()
        execution.waiting.wait()
        if execution.error is not None:
            return self.do_stop()
        return {"queries": sorted(execution.queries)}

    def do_process_all(self) -> Any:
        for query in self._running().queries.values():
            query.processAllAvailable()
        return self._batches()

    def do_await_batch(self, query: str, batch: int, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        watched = self._running().queries[query]
        while time.monotonic() < deadline and watched.isActive:
            if newest_batch(watched) >= batch:
                return self._batches()
            time.sleep(0.05)
        raise TimeoutError(f"Query {query!r} did not come to batch {batch} within {seconds:.0f} s.")

    def do_stop(self) -> Any:
        execution, thread, patches = self._live  # type: ignore[misc]
        self._live = None
        self._stop(execution)
        thread.join()
        patches.__exit__(None, None, None)
        error = describe(execution.error) if execution.error is not None else None
        return {"queries": execution.finish(), "error": error}

    def do_rows(self, path: str, format: str, options: Mapping[str, str], schema: str) -> Any:
        reader = new_session(self._spark).read.format(format).options(**options)
        return rows_of((reader.schema(schema) if schema else reader).load(path))

    def do_call(self, file: str, function: str, arguments: Sequence[Any]) -> Any:
        spec = importlib.util.spec_from_file_location("called", file)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        given = getattr(module, function)(new_session(self._spark), *arguments)
        return rows_of(given) if hasattr(given, "collect") else given

    def _begin(self, conf: Mapping[str, str], py_files: Sequence[str]) -> None:
        if self._live is not None:
            raise RuntimeError("A script is running; stop it before the next one.")
        fresh = new_session(self._spark)
        for key, value in conf.items():
            fresh.conf.set(key, value)
        for file in py_files:
            self._spark.sparkContext.addPyFile(file)

    def _running(self) -> Execution:
        if self._live is None:
            raise RuntimeError("No script is running; start one.")
        return self._live[0]

    def _batches(self) -> dict[str, int]:
        return {name: newest_batch(query) for name, query in self._running().queries.items()}

    @staticmethod
    def _stop(execution: Execution) -> None:
        for query in execution.queries.values():
            query.stop()


def main() -> None:
    """Start Spark, then answer until the other side closes."""
    from pyspark.sql import SparkSession

    settings = json.loads(sys.argv[2])
    # Not this file's folder: its neighbors have names that a script may want to import.
    sys.path.pop(0)
    builder = SparkSession.builder.appName("airflow_streaming.testing")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    worker = Worker(spark)
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as replies:
        for line in sys.stdin:
            try:
                reply = {"value": worker.answer(json.loads(line))}
            except Exception as err:  # noqa: BLE001 - told to the other side
                traceback.print_exc()
                reply = {"error": describe(err)}
            replies.write(json.dumps(reply, default=str) + "\n")
            replies.flush()
    spark.stop()


if __name__ == "__main__":
    main()
