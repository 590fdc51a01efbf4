"""
A driver of a declarative pipeline: ``spark-pipelines run``, again and again in one JVM.

Flows are defined by a client of Spark Connect. Its server runs inside the driver's own JVM and listens on the loopback
interface, so the queries are where the fence, the claims and the heartbeat reach them, and end with the driver.

Spark's own retries of a flow are switched off: a flow that fails ends the driver, and the restart policy decides.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary, logger
from airflow_streaming.driver.exit_status import ScriptEnd, ScriptState, ShutdownState
from airflow_streaming.driver.launch_context import LaunchContext
from airflow_streaming.driver.pipeline.flow_watch import FlowWatch
from airflow_streaming.driver.script import error_of
from airflow_streaming.exceptions import DriverRefusal, RecordError, SpecError, closed
from airflow_streaming.model.pipeline.program import PipelineProgram, rhythm_of, storage_uri

GRACE: Final = 5.0
"""Seconds that an update may still take when the driver is to stop."""
_SETTINGS: Final = {
    "spark.connect.grpc.binding.address": "localhost",
    "spark.connect.grpc.binding.port": "0",
}
_TOKEN: Final = "spark.connect.authenticate.token"  # noqa: S105  # the name of a setting
_USUAL: Final = {"spark.sql.pipelines.maxFlowRetryAttempts": "0"}
_PACKAGES: Final = (
    "grpcio, grpcio-status, googleapis-common-protos, zstandard, pandas, pyarrow, pyyaml"
)
_SERVICE: Final = "SparkConnectService$"


def write_pipeline(
    program: PipelineProgram, folder: Path, fill: Callable[[str], str], storage: str
) -> Path:
    """
    Write a pipeline's files, and return its YAML.

    :param fill: Replaces placeholders in the values of the YAML.
    :param storage: Where the flows keep their checkpoints, whatever the YAML says.
    """
    import yaml  # a part of what pipelines need in the runtime

    for name, text in program.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    spec = _filled(yaml.safe_load(program.files[program.spec]), fill)
    path = folder / program.spec
    path.write_text(yaml.safe_dump({**spec, "storage": storage}), encoding="utf-8")
    return path


def _filled(value: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        return {key: _filled(one, fill) for key, one in value.items()}
    return [_filled(one, fill) for one in value] if isinstance(value, list) else value


def load_cli() -> Any:
    """
    Return Spark's module of pipelines.

    :raises DriverRefusal: this Spark has none, or a package is missing.
    """
    import pyspark

    try:
        from pyspark.pipelines import cli
    except ModuleNotFoundError as err:
        if (err.name or "").startswith("pyspark"):
            raise DriverRefusal(
                f"Spark {pyspark.__version__} has no declarative pipelines; they need 4.1 or newer. Choose "
                "another runtime."
            ) from err
        raise _missing(err) from err
    except ImportError as err:
        raise _missing(err) from err
    return cli


def _missing(err: ImportError) -> DriverRefusal:
    return DriverRefusal(
        f"The runtime cannot run declarative pipelines: {closed(str(err))} Install into its Python: {_PACKAGES}."
    )


class ConnectServer:
    """The server of Spark Connect in this driver's JVM."""

    def __init__(self) -> None:
        from pyspark import SparkConf, SparkContext

        token = secrets.token_hex(16)
        conf = SparkConf().setAll([*_SETTINGS.items(), (_TOKEN, token)])
        for key, value in _USUAL.items():
            conf.setIfMissing(key, value)
        context = SparkContext.getOrCreate(conf)
        jvm: Any = context._jvm
        self._jvm, self.context = jvm, context
        session = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
        self.active = session.sharedState().activeStreamingQueries()
        self._service = jvm.org.apache.spark.sql.connect.service
        self._service.SparkConnectService.start(context._jsc.sc())
        self._module = getattr(getattr(self._service, _SERVICE), "MODULE$")
        # Only now: with these variables pyspark makes no classic context.
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        os.environ["SPARK_REMOTE"] = f"sc://localhost:{int(self._module.localPort())}"

    def session(self, conf: Mapping[str, str]) -> Any:
        """Return a new session of a client."""
        from pyspark.sql.connect.session import SparkSession

        builder: Any = SparkSession.builder
        return builder.config(map=dict(conf)).remote(os.environ["SPARK_REMOTE"]).create()

    def close(self) -> None:
        """Stop the server: its cleaning threads would keep the JVM alive after a driver that ended well."""
        nothing = self._jvm.scala.Option.empty()
        self._module.stop(nothing, nothing)

    def stop_updates(self) -> None:
        """Stop the updates of all sessions, with the flows in work."""
        manager = self._module.sessionManager()
        infos = manager.listActiveSessions()
        for i in range(infos.size()):
            info = infos.apply(i)
            key = self._service.SessionKey(info.userId(), info.sessionId())
            found = manager.getIsolatedSessionIfPresent(key)
            if found.isDefined():
                found.get().removeAllPipelineExecutions()


class PipelineUpdates:
    """
    Runs the updates of one pipeline.

    :param check_may_write: Returns only while this driver is the stream's.
    :param wait_to_start: Waits while the stream is paused.
    :param watch_flows: Makes the watch, once there is a Spark context.
    :param waits: The driver is to wait at the barrier before its first query, which an update cannot.
    """

    def __init__(
        self,
        assignment: LaunchContext,
        *,
        ending: ShutdownState,
        check_may_write: Callable[[], None],
        wait_to_start: Callable[[], object],
        watch_flows: Callable[[], FlowWatch],
        waits: bool = False,
    ) -> None:
        self._assignment, self._ending = assignment, ending
        self._check_may_write, self._wait_to_start = check_may_write, wait_to_start
        self._watch_flows, self._waits = watch_flows, waits
        self._idle = threading.Event()
        self._idle.set()
        self._server: ConnectServer | None = None
        self._faults = ErrorBoundary()

    def close(self) -> None:
        """Let the JVM end once the driver has recorded its own end."""
        if self._server is not None:
            with self._faults.contained("Stopping the server of Spark Connect"):
                self._server.close()

    def run(self) -> ScriptEnd:
        """Run updates until the driver is to end, and tell how they ended."""
        try:
            self._run()
        except DriverRefusal as err:
            self._ending.refuse(err)
            return ScriptEnd(state=ScriptState.FAILED, error=error_of(err), retryable=False)
        except Exception as err:  # noqa: BLE001  # the pipeline's code may raise anything
            if self._ending.begun.is_set():
                return ScriptEnd(state=ScriptState.RETURNED)
            logger.exception("The update of the pipeline failed.")
            return ScriptEnd(state=ScriptState.FAILED, error=error_of(err))
        return ScriptEnd(state=ScriptState.RETURNED)

    def _run(self) -> None:
        if self._waits:
            raise DriverRefusal(
                f"The driver of pipeline {self._assignment.deployment.application} cannot wait before its first "
                "update, as a standby, a pre-warmed upgrade and a cutover ask. Upgrade in place without prewarm."
            )
        cli, deployment = load_cli(), self._assignment.deployment
        try:
            rhythm = rhythm_of(deployment.application_args)
            program = PipelineProgram.from_bytes(self._assignment.source)
        except (SpecError, RecordError) as err:
            raise DriverRefusal(str(err)) from err
        home = self._assignment.home
        with tempfile.TemporaryDirectory(prefix="airflow-streaming-pipeline-") as folder:
            path = write_pipeline(
                program,
                Path(folder),
                lambda text: deployment.filled(text, home),
                storage_uri(deployment.checkpoint),
            )
            server = self._server = ConnectServer()
            flows = self._watch_flows()
            flows.begin(server.active)
            self._stop_when_ending(server)
            while not self._ending.begun.is_set():
                began = time.monotonic()
                self._wait_to_start()
                self._check_may_write()
                flows.check()
                self._update(cli, server, path)
                rest = rhythm.rest_after(time.monotonic() - began)
                if rhythm.once or self._ending.begun.wait(rest):
                    return

    def _update(self, cli: Any, server: ConnectServer, path: Path) -> None:
        """Run one update as ``spark-pipelines run`` does."""
        spec = cli.load_pipeline_spec(path)
        self._idle.clear()
        session = server.session(spec.configuration)
        try:
            graph = cli.create_dataflow_graph(
                session,
                default_catalog=spec.catalog,
                default_database=spec.database,
                sql_conf=spec.configuration,
            )
            registry = cli.SparkConnectGraphElementRegistry(session, graph)
            cli.register_definitions(path, registry, spec, session, graph)
            if self._ending.begun.is_set():
                return
            events = cli.start_run(
                session,
                graph,
                full_refresh=[],
                full_refresh_all=False,
                refresh=[],
                dry=False,
                storage=spec.storage,
            )
            cli.handle_pipeline_events(events)
        finally:
            self._idle.set()
            with self._faults.contained("Closing the session of an update"):
                session.stop()

    def _stop_when_ending(self, server: ConnectServer) -> None:
        def stop() -> None:
            self._ending.begun.wait()
            if not self._idle.wait(GRACE):
                with self._faults.contained("Stopping the update of the pipeline"):
                    server.stop_updates()

        threading.Thread(target=stop, name="airflow-streaming-update-stop", daemon=True).start()
