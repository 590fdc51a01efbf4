"""
Running streaming scripts in a separate Spark, from a test.

All tests that share a tester use the same Spark: its start takes most of the time of a small test.
Every run gets a new session in it, so that settings and views do not leak between runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

WORKER: Final = Path(__file__).with_name("worker.py")

PATIENCE: Final = 600.0
"""Seconds after which a call counts as hung."""

LOG_BYTES: Final = 4000
"""Bytes of the end of Spark's log that an error shows."""

SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # Tests run each plan on a few rows: what compiles costs more than it gains.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
}
"""A small Spark that starts queries quickly; what ``conf`` of the tester says comes over it."""


class StreamTestError(Exception):
    """
    A script or a query failed, or Spark did not answer.

    :param kind: Name of the exception's class in Spark's process.
    :param condition: Spark's error condition, of the innermost cause that has one, e.g.
        ``TABLE_OR_VIEW_NOT_FOUND``.
    """

    def __init__(self, text: str, *, kind: str = "", condition: str | None = None) -> None:
        super().__init__(text)
        self.kind, self.condition = kind, condition


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """
    The result of one query in one run.

    :param id: Its id, which it keeps as long as its checkpoint.
    :param progress: Spark's progress, a dictionary a batch, oldest first; Spark keeps the last 100.
    :param rows: Rows of a memory sink; ``None`` for other sinks.
    :param error: Why it failed.
    """

    id: str
    progress: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]] | None
    error: StreamTestError | None

    @property
    def batches(self) -> list[int]:
        """The numbers of the batches that ran, without empty ones."""
        return sorted({one["batchId"] for one in self.progress if "addBatch" in one["durationMs"]})

    @property
    def input_rows(self) -> int:
        """How many rows all batches read."""
        return sum(one["numInputRows"] for one in self.progress)

    @property
    def late_rows(self) -> int:
        """How many rows were dropped because they came after the watermark."""
        operators = [state for one in self.progress for state in one.get("stateOperators", ())]
        return sum(state.get("numRowsDroppedByWatermark", 0) for state in operators)

    @property
    def state_rows(self) -> int:
        """How many rows the state held after the last batch."""
        newest = self.progress[-1].get("stateOperators", ()) if self.progress else ()
        return sum(state.get("numRowsTotal", 0) for state in newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """
    The result of one run of a script.

    :param queries: Its queries by name.
    :param error: The script's own exception.
    """

    queries: Mapping[str, QueryRun]
    error: StreamTestError | None

    def __getitem__(self, query: str) -> QueryRun:
        return self.queries[query]

    def check(self) -> Self:
        """
        Return the run if nothing in it failed.

        :raises StreamTestError: the first failure, of a query before one of the script.
        """
        for error in (*(query.error for query in self.queries.values()), self.error):
            if error is not None:
                raise error
        return self


class StreamTester:
    """
    A Spark for many tests; started by the first call that needs it.

    :param python: Python of the Spark installation; default: the running Python.
    :param conf: Configuration of Spark; over ``SETTINGS``.
    :param environment: More environment variables for Spark.
    :param patience: Seconds after which a call counts as hung, and Spark is killed.
    """

    def __init__(
        self,
        python: str | Path | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._python, self._patience = str(python or sys.executable), patience
        self._conf, self._environment = {**SETTINGS, **(conf or {})}, dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: IO[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="stream-tester-")
        self.log = Path(self._folder.name, "spark.log")

    def run(
        self,
        script: str | Path,
        *arguments: str | Path,
        checkpoint: str | Path,
        conf: Mapping[str, str] | None = None,
        py_files: Sequence[str | Path] = (),
        own_trigger: bool = False,
        check: bool = True,
    ) -> ScriptRun:
        """
        Run a script until its queries have read all present input.

        A second call with the same checkpoint is a restart.

        :param arguments: The script's.
        :param checkpoint: Folder for the checkpoints, instead of the script's own.
        :param conf: Settings of the script's session.
        :param py_files: Python files that the script imports; they stay for the runs after it.
        :param own_trigger: Keep the script's processing triggers; it must then end on its own.
        :param check: Raise a failure; otherwise it is in the result.
        :raises StreamTestError: the script or a query failed.
        """
        run = _script_run(
            self._ask(
                "run",
                script=str(script),
                arguments=[str(one) for one in arguments],
                checkpoint=str(checkpoint),
                conf=dict(conf or {}),
                py_files=[str(one) for one in py_files],
                own_trigger=own_trigger,
            )
        )
        return run.check() if check else run

    def run_batch(
        self,
        script: str | Path,
        *arguments: str | Path,
        conf: Mapping[str, str] | None = None,
        py_files: Sequence[str | Path] = (),
    ) -> dict[str, list[dict[str, Any]]]:
        """
        Compute the result of the script's queries for all input at once, and return the rows.

        The script runs with ``read`` in the place of ``readStream``. Sinks, output modes and
        ``foreachBatch`` are left out, and watermarks mean nothing: late rows are in the result.

        :raises StreamTestError: the script failed.
        """
        found: dict[str, list[dict[str, Any]]] = self._ask(
            "batch",
            script=str(script),
            arguments=[str(one) for one in arguments],
            conf=dict(conf or {}),
            py_files=[str(one) for one in py_files],
        )
        return found

    def start(
        self,
        script: str | Path,
        *arguments: str | Path,
        checkpoint: str | Path,
        conf: Mapping[str, str] | None = None,
        py_files: Sequence[str | Path] = (),
    ) -> LiveScript:
        """
        Start a script with its own triggers, and return when it waits for its queries.

        :raises StreamTestError: it failed before.
        """
        reply = self._ask(
            "start",
            script=str(script),
            arguments=[str(one) for one in arguments],
            checkpoint=str(checkpoint),
            conf=dict(conf or {}),
            py_files=[str(one) for one in py_files],
        )
        if "error" in reply:
            _script_run(reply).check()
        return LiveScript(self)

    def rows(
        self,
        path: str | Path,
        *,
        format: str = "parquet",
        schema: str = "",
        options: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """
        Read rows from a folder with Spark, which honors the log of the file sink.

        :param schema: As DDL; default: what Spark finds.
        """
        found: list[dict[str, Any]] = self._ask(
            "rows", path=str(path), format=format, schema=schema, options=dict(options or {})
        )
        return found

    def call(self, file: str | Path, function: str, *arguments: Any) -> Any:
        """
        Call a function of a Python file in Spark's process: ``function(spark, *arguments)``.

        :param arguments: JSON values.
        :return: Rows, if the function returns a frame; otherwise its JSON value.
        """
        given = [str(one) if isinstance(one, Path) else one for one in arguments]
        return self._ask("call", file=str(file), function=function, arguments=given)

    def kill(self) -> None:
        """Kill Spark with SIGKILL, as a lost machine would; the next call starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, self._replies):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def close(self) -> None:
        """End Spark and remove its log."""
        self.kill()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, what: str, **given: Any) -> Any:
        if self._process is None:
            self._launch()
        if self._process is None or self._process.stdin is None:
            raise StreamTestError("Spark is not running.")
        request = json.dumps({"do": what, "with": given}) + "\n"
        try:
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone(what) from None
        reply = json.loads(self._reply(what))
        if error := reply.get("error"):
            raise _error(error)
        return reply["value"]

    def _launch(self) -> None:
        reading, writing = os.pipe()
        # Java keeps its port open for as long as it lives: a group of its own makes both killable.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, str(WORKER), str(writing), json.dumps(self._conf)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
                env=self._worker_environment(),
                cwd=self._folder.name,
            )
        os.close(writing)
        self._replies = os.fdopen(reading, "rb")

    def _worker_environment(self) -> dict[str, str]:
        # Modules of the tests' own Python would be imported into Spark's.
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
        of_spark = {
            "TZ": "UTC",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": self._python,
            "PYSPARK_DRIVER_PYTHON": self._python,
        }
        return {**kept, **of_spark, **self._environment}

    def _reply(self, what: str) -> bytes:
        replies = self._replies
        if replies is None:
            raise StreamTestError("Spark is not running.")
        ready, _, _ = select.select([replies], [], [], self._patience)
        if not ready:
            end = self._log_end()
            self.kill()
            raise StreamTestError(f"{what!r} took longer than {self._patience:.0f} s.\n{end}")
        line = replies.readline()
        if not line:
            raise self._gone(what)
        return line

    def _gone(self, what: str) -> StreamTestError:
        end = self._log_end()
        self.kill()
        return StreamTestError(f"Spark ended during the request {what!r}. Its log ends:\n{end}")

    def _log_end(self) -> str:
        return self.log.read_bytes()[-LOG_BYTES:].decode(errors="replace")


class LiveScript:
    """
    A script that runs on its own triggers, to be fed and waited for. Leaving it stops it.

    :param tester: Its Spark.
    """

    def __init__(self, tester: StreamTester) -> None:
        self._tester, self._ended = tester, False

    def process_all(self) -> dict[str, int]:
        """Wait until all present input is committed; return the newest batch of each query."""
        return dict(self._tester._ask("process_all"))

    def await_batch(self, query: str, batch: int, *, seconds: float = 120.0) -> dict[str, int]:
        """
        Wait until a query has committed a batch or a later one.

        :raises StreamTestError: the query ended, or the time was over.
        """
        return dict(self._tester._ask("await_batch", query=query, batch=batch, seconds=seconds))

    def stop(self) -> ScriptRun:
        """Stop the queries, and return their results."""
        self._ended = True
        return _script_run(self._tester._ask("stop"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended and self._tester._process is not None:
            self.stop()


def undo_last_commit(checkpoint: str | Path, query: str) -> int:
    """
    Take back the commit of a query's last batch, as a kill between its output and its commit does.

    The next run of the query executes that batch a second time, with the same input and the state
    from before it. Only for a checkpoint in a local folder, of a query that does not run.

    :return: The batch that will run again.
    :raises StreamTestError: no batch was committed.
    """
    commits = Path(checkpoint, query, "commits")
    numbers = [int(one.name) for one in commits.glob("*") if one.name.isdigit()]
    if not numbers:
        raise StreamTestError(f"{commits} holds no commit; run the query first.")
    batch = max(numbers)
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)
    return batch


def _script_run(reply: Mapping[str, Any]) -> ScriptRun:
    queries = {
        name: QueryRun(
            id=one["id"], progress=one["progress"], rows=one["rows"], error=_error(one["error"])
        )
        for name, one in reply["queries"].items()
    }
    return ScriptRun(queries=queries, error=_error(reply["error"]))


def _error(values: Mapping[str, Any] | None) -> Any:
    if values is None:
        return None
    text = f"{values['kind']}: {values['text']}"
    return StreamTestError(text, kind=values["kind"], condition=values["condition"])
