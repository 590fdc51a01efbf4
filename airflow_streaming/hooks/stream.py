"""Airflow's side of a stream: its connections, settings and spec, joined to the rooms below."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from airflow_streaming.advice.profile_conf import ConfSource
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.hooks.clusters import Target, application_for, target_of
from airflow_streaming.hooks.home import StreamHomeHook, access_options, store_access
from airflow_streaming.hooks.launchers import task_policy
from airflow_streaming.hooks.overrides import overrides_between, with_live
from airflow_streaming.hooks.snapshot import for_lane
from airflow_streaming.launch.conf_rules import check_conf, join_shipped
from airflow_streaming.launch.environment import (
    delete_secret,
    driver_environment,
    guarded,
    listening,
    properties_text,
    secret_files,
    spark_defaults,
    write_private,
)
from airflow_streaming.launch.java import (
    OLDEST_WITH_FILES,
    OPTIONS_VARIABLE,
    argument_file,
    check_executor_options,
    find_java,
    split_options,
)
from airflow_streaming.launch.package import (
    build_driver_package,
    file_digests,
    locate_application,
    read_application,
)
from airflow_streaming.launch.pipeline_files import check_runs_pipelines, check_storage
from airflow_streaming.launch.port import ClusterApplication, Launcher, LaunchRequest
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.launch.worker_pod import check_outlives_task
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.pipeline.program import is_pipeline
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.conf import (
    LOG_BYTES,
    PY_FILES,
    SHIPPED,
    conf_text,
    has_executors,
    shipped_lists,
)
from airflow_streaming.model.spark.launchers import LOCAL, STANDALONE, YARN
from airflow_streaming.model.spark.secret_conf import secret_values
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.settings import Settings, read_settings
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController, Submission
from airflow_streaming.supervision.observer import Observer

if TYPE_CHECKING:
    from airflow_streaming.changes.upgrade.preflight import Candidate
    from airflow_streaming.spark_jobs.runner import Program

log: Final = logging.getLogger(__name__)
_PYTHONS: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
MINOR: Final = 2
"""Parts of a Spark version that a deployment holds on to; patch releases read each other's state."""

LaunchConf: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]


class SparkStreamHook(BaseHook):
    """
    Joins one stream's spec with the connection, runtime and home it names.

    It acts on the lane of the stream that was live at its first look, by default.

    :param spec: The stream, rendered.
    :param conn_id: Spark connection: where ``spark-submit`` sends the application.
    :param home_conn_id: Connection with credentials for the home.
    :param by: The acting user, for the records.
    :param folders: Where a relative application path may start.
    :param lane: Act on this lane of the stream, live or not.
    :param launch_conf: Returns a new driver's configuration beside its deployment; default: empty.
    :param has_seen_home: The caller has seen the home before, and remembers its epochs: a home that
        is empty now has vanished and is no error.
    :param dag: The stream as its DAG has it, where ``spec`` has the values of a form; default:
        ``spec``.
    :raises SpecError: the spec is invalid, or the lane belongs to another stream.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "spark_default"
    conn_type = "spark"
    hook_name = "Spark stream"

    def __init__(
        self,
        spec: StreamSpec,
        *,
        conn_id: str = default_conn_name,
        home_conn_id: str | None = None,
        by: str,
        folders: Sequence[Path] = (),
        lane: str | None = None,
        launch_conf: LaunchConf | None = None,
        has_seen_home: bool = False,
        dag: StreamSpec | None = None,
    ) -> None:
        super().__init__()
        spec.check()
        if lane is not None and lane not in (spec.name, other_lane(spec.name)):
            raise SpecError(f"{lane!r} is not a lane of stream {spec.name!r}.")
        self.asked, self.conn_id, self.home_conn_id = spec, conn_id, home_conn_id
        self.by, self.folders, self._given_lane = by, folders, lane
        self._launch_conf, self._has_seen_home = launch_conf, has_seen_home
        self.dag = dag or spec

    def lane(self, lane: str) -> SparkStreamHook:
        """
        Return the hook of one lane of this stream, live or not.

        ``home``, ``controller``, ``observer()`` and ``spec`` are that lane's.

        :raises SpecError: the lane belongs to another stream.
        """
        return self._copy(self.asked, lane)

    @cached_property
    def streams(self) -> Home:
        return StreamHomeHook(
            self.asked.home, self.home_conn_id, has_seen_home=self._has_seen_home
        ).get_conn()

    def init_home(self) -> None:
        """Make the stream's home one, on a user's explicit word only; see ``init_home`` of the home."""
        StreamHomeHook(self.asked.home, self.home_conn_id).init()

    @cached_property
    def home(self) -> StreamHome:
        """The records of this hook's lane: the chosen one, or the live one."""
        return self.streams.stream(self._given_lane or self.live_lane())

    @cached_property
    def spec(self) -> StreamSpec:
        """The stream as its dag asks for it, for the lane this hook acts on."""
        return for_lane(self.asked, self.streams, self.home)

    def live_lane(self) -> str:
        return live_lane(self.streams, self.asked.name)

    @cached_property
    def target(self) -> Target:
        """
        Where new drivers of the stream are started.

        :raises SpecError: the Spark connection asks for what cannot be run.
        """
        try:
            connection = self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            connection = None  # said when a driver is to be started
        return target_of(self.conn_id, connection, self.asked.launcher)

    @cached_property
    def launcher(self) -> Launcher:
        """Starts the next driver, and observes earlier drivers."""
        folder = read_settings().driver_logs(self.streams.store.uri)
        cluster = self.target.cluster
        return open_launcher(
            *(self.target.launcher,), folder=folder, cluster=cluster, policy=task_policy(cluster)
        )

    @cached_property
    def controller(self) -> StreamController:
        """Who acts on the stream."""
        return StreamController(
            self.home,
            self.launcher,
            spec=self.spec,
            submit=self.submit,
            by=self.by,
            storage_options=lambda: access_options(self.asked.home, self.home_conn_id),
        )

    def observer(self, memory: dict[str, Any] | None = None, *, follows: bool = False) -> Observer:
        """
        Return the observer of the stream.

        :param memory: The findings of a trigger that listened.
        :param follows: Look each time whether the lane is still the live one.
        """
        return Observer(
            self.home,
            self.launcher,
            memory=memory,
            live=self.live_lane if follows else None,
        )

    def proposal(
        self, *, fresh: bool = False, carried_on: Mapping[str, str] | None = None
    ) -> tuple[Deployment, bytes]:
        """
        Return the deployment the spec asks for, and its script; see ``StreamController.propose``.

        :raises SpecError: the script or the runtime is not there, the configuration contradicts where the
            driver would be launched, or the driver would end with the pod of this task.
        """
        check_outlives_task(self.target.launcher, os.environ)
        runtime = self.runtime(self.asked.runtime)
        location = locate_application(self.asked.program, self.folders)
        source = read_application(location)
        if is_pipeline(location):
            check_runs_pipelines(runtime.spark_version)
            check_storage(source, self.asked.checkpoint)
        proposed = self.controller.propose(
            runtime,
            location,
            source,
            fresh=fresh,
            carried_on=carried_on,
            py_files_sha256=file_digests(self.asked.py_files),
        )
        self._check_is_asked()
        self._check_conf(self._with_secrets(proposed.conf), runtime)
        return replace(proposed, overrides=overrides_between(self.dag, self.asked)), source

    def candidate(self) -> tuple[Candidate, bytes]:
        """
        Return the deployment that the spec proposes, ready for the gates, and its script.

        :raises SpecError: it cannot run as written.
        """
        from airflow_streaming.changes.upgrade.preflight import Candidate  # not at dag parse

        proposed, source = self.proposal()
        live = self.home.newest_deployment()
        candidate = Candidate(
            deployment=proposed,
            program=self.program(proposed, source),
            runtime=self.runtime(self.spec.runtime),
            of_profile=frozenset() if live is None else self.profile_keys(live),
        )
        return candidate, source

    def profile_keys(self, deployment: Deployment) -> frozenset[str]:
        """Return the settings that the stream's profile gives to a deployment on its Spark."""
        known = self.asked.configuration(deployment.spark_version, deployment.conf)
        return frozenset(one.key for one in known if one.source is not ConfSource.STREAM)

    def with_live_values(self) -> SparkStreamHook:
        """Return the hook of the stream with the values that forms have set on the live deployment."""
        live = self.home.newest_deployment()
        asked = with_live(self.dag, () if live is None else live.overrides)
        return self._copy(asked, self._given_lane)

    def _copy(self, spec: StreamSpec, lane: str | None) -> SparkStreamHook:
        return SparkStreamHook(
            spec,
            conn_id=self.conn_id,
            home_conn_id=self.home_conn_id,
            by=self.by,
            folders=self.folders,
            lane=lane,
            launch_conf=self._launch_conf,
            has_seen_home=self._has_seen_home,
            dag=self.dag,
        )

    def _with_secrets(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return a recorded configuration with the secrets that the dag gives."""
        given = self.asked.conf
        return {
            key: conf_text(given[key]) if value == REDACTED and key in given else value
            for key, value in conf.items()
        }

    def _check_conf(self, conf: Mapping[str, str], runtime: Runtime) -> None:
        check_conf(self.asked.name, self.target.site(runtime), conf, self.asked.env)

    def runtime(self, name: str) -> Runtime:
        """Return a Spark installation by its name in ``[streaming] runtimes``."""
        return resolve_runtime(name, read_settings().runtimes)

    def program(
        self, deployment: Deployment, source: bytes, *, is_scratch: bool = False
    ) -> Program:
        """
        Return a deployment for a short Spark job, with the dag's and the home connection's secrets.

        :param is_scratch: Let ``{output}`` be a folder of the scratch. A plan needs the real path,
            which it does not touch; a job that runs batches must not know it.
        """
        from airflow_streaming.spark_jobs.runner import program_of  # not at dag parse

        if is_scratch:
            deployment = replace(deployment, output=SCRATCH_OUTPUT)
        conf, home = self._with_secrets(deployment.conf), self.asked.home
        program = program_of(deployment, source, home, conf)
        access = store_access(home, self.home_conn_id, program.conf)
        return replace(program, conf={**access, **program.conf}, env=dict(self.asked.env))

    def submit(self, submission: Submission) -> LaunchRequest:
        """
        Build the driver's command, environment and log.

        The configuration goes to a file that only this user can read and that the driver deletes.
        """
        access = store_access(self.asked.home, self.home_conn_id, submission.conf)
        conf = {**access, **submission.conf}
        more = self._launch_conf(conf) if self._launch_conf is not None else {}
        submission = replace(submission, conf={**more, **conf})
        self._mask(submission.conf)
        runtime = self.runtime(submission.deployment.runtime)
        _check_same_spark(submission.deployment, runtime)
        self._check_is_asked()
        self._check_conf(submission.conf, runtime)
        submission = self._with_joined_lists(submission)
        submit = self._submit_to_cluster if self.target.cluster else self._submit_from_here
        return submit(submission, runtime)

    def _check_is_asked(self) -> None:
        """
        Refuse a cluster that triggers would not ask for the driver, because a list names others.

        :raises SpecError: it is not in the list.
        """
        listed = read_settings().clusters
        if not listed or self.target.launcher == LOCAL:
            return
        cluster = self.launcher.host().name
        if cluster not in listed:
            raise SpecError(
                f"The driver of stream {self.asked.name!r} cannot be started: cluster {cluster!r} is not in "
                f"[streaming] clusters ({', '.join(listed)}). Triggers, restores and cutovers ask only the "
                "listed clusters, so they would not see the driver. Add the cluster to the list of every "
                "Airflow component, or empty the list."
            )

    def _with_joined_lists(self, submission: Submission) -> Submission:
        if submission.conf.keys().isdisjoint(SHIPPED.values()):
            return submission
        deployment = submission.deployment
        archive = str(build_driver_package(read_settings().driver_folder).archive)
        conf, lists = join_shipped(submission.conf, shipped_lists(deployment), archive)
        shipped: dict[str, Any] = dict(lists)
        return replace(submission, conf=conf, deployment=replace(deployment, **shipped))

    def _driver_log(self, epoch: Epoch) -> Path:
        home = self.streams.store.uri
        return read_settings().driver_log(home, epoch.stream, epoch.number)

    def _driver_arguments(self, epoch: Epoch) -> tuple[str, ...]:
        return (
            *("--home", self.asked.home, "--stream", epoch.stream),
            *("--epoch", str(epoch.number), "--token", epoch.mark),
        )

    def _submit_from_here(self, submission: Submission, runtime: Runtime) -> LaunchRequest:
        from airflow_streaming.hooks.spark_submit import build_submit_command

        epoch, deployment = submission.epoch, submission.deployment
        settings = read_settings()
        output = self._driver_log(epoch)
        package = build_driver_package(settings.driver_folder)
        properties, _, options = private_files = secret_files(output.parent, epoch)[:3]
        environment = driver_environment(os.environ, runtime, self.asked.env)
        defaults = spark_defaults(runtime, environment)
        try:
            command = build_submit_command(
                conn_id=self.conn_id,
                runtime=runtime,
                stream=epoch.serves or epoch.stream,
                properties_file=properties,
                main=package.main,
                lists=_lists(deployment, submission.conf, str(package.archive)),
                arguments=(
                    *self._driver_arguments(epoch),
                    *("--properties-file", str(properties)),
                ),
            )
            master = command[command.index("--master") + 1]
            self._tell_where(master)
            conf, secret = split_options(submission.conf)
            check_executor_options(conf, master)
            environment = listening(environment, master, conf)
            if secret:
                environment = self._hand_over(secret, options, runtime, environment)
            environment = {**environment, **_bounded(settings)}
            write_private(properties, properties_text(guarded(conf, defaults), defaults))
        except BaseException:
            for file in private_files:
                delete_secret(file)
            raise
        return LaunchRequest(
            epoch=epoch,
            command=command,
            environment=environment,
            log=output,
            private_files=private_files,
        )

    def _tell_where(self, master: str) -> None:
        if has_executors(master):
            log.info(
                "The driver runs on this host (launcher %r), its executors on %s: connection %r does not "
                "ask for deploy mode 'cluster'.",
                *(self.target.launcher, master, self.conn_id),
            )

    def _submit_to_cluster(self, submission: Submission, runtime: Runtime) -> LaunchRequest:
        epoch, deployment, settings = submission.epoch, submission.deployment, read_settings()
        environment = driver_environment(os.environ, runtime, {})
        is_yarn = self.target.launcher == YARN
        bounded = _bounded(settings) if self.target.launcher in (STANDALONE, YARN) else {}
        application = application_for(
            self.target,
            deployment,
            runtime,
            package=build_driver_package(settings.driver_folder),
            arguments=self._driver_arguments(epoch),
            conf=submission.conf,
            environment={**self.asked.env, **bounded},
            home=self.asked.home,
            store=self.streams.store,
            defaults=spark_defaults(runtime, environment) if is_yarn else "",
        )
        request = LaunchRequest(
            epoch=epoch,
            command=(str(runtime.spark_submit),),
            environment=environment,
            log=self._driver_log(epoch),
            application=application,
        )
        return self._by_connection(request, application, runtime) if is_yarn else request

    def _by_connection(
        self, request: LaunchRequest, application: ClusterApplication, runtime: Runtime
    ) -> LaunchRequest:
        """Return a request whose command has the queue, principal and keytab of the connection."""
        from airflow_streaming.hooks.spark_submit import build_submit_command

        private_files = secret_files(request.log.parent, request.epoch)
        request = replace(request, private_files=private_files)
        try:
            command = build_submit_command(
                conn_id=self.conn_id,
                runtime=runtime,
                stream=request.epoch.stream,
                properties_file=private_files[0],
                main=Path(application.main),
                lists=_lists(application, application.secret_conf, application.archive),
                arguments=application.arguments,
                deploy_mode="cluster",
            )
        except BaseException:
            request.discard()
            raise
        # Spark hands these on to the application master, on whose host they mean nothing.
        kept = {k: v for k, v in request.environment.items() if k not in _PYTHONS}
        return replace(request, command=command, environment=kept)

    def _mask(self, conf: Mapping[str, str]) -> None:
        """Keep the stream's secrets out of Airflow's logs, wherever they are quoted."""
        from airflow.sdk.log import mask_secret

        env = self.asked.env
        for value in sorted(secret_values(conf) | secret_values(env, all_of=tuple(env))):
            mask_secret(value)

    def _hand_over(
        self,
        secret: tuple[str, ...],
        path: Path,
        runtime: Runtime,
        environment: Mapping[str, str],
    ) -> dict[str, str]:
        java = find_java(runtime.name, runtime.java_home, environment)
        if java.feature < OLDEST_WITH_FILES:
            raise SpecError(
                f"Stream {self.asked.name!r} has secret Java options, and Java {java.version} of "
                f"runtime {runtime.name!r} takes them from its command line only, which all users "
                "of this host can read. Name a newer java_home for the runtime."
            )
        text, variable = argument_file(secret, path)
        write_private(path, text)
        given = environment.get(OPTIONS_VARIABLE, "")
        return {**environment, OPTIONS_VARIABLE: f"{given} {variable}".strip()}


def _bounded(settings: Settings) -> dict[str, str]:
    """Return the variable by which a driver bounds its log."""
    return {LOG_BYTES: str(settings.driver_log_mb * 1_000_000)}


def _lists(
    of: Deployment | ClusterApplication, conf: Mapping[str, str], archive: str
) -> dict[str, tuple[str, ...]]:
    """Return what options list: no Python files where a private file has the whole list of them."""
    py_files = () if PY_FILES in conf else (archive, *of.py_files)
    return {**shipped_lists(of), "py_files": py_files}


def _check_same_spark(deployment: Deployment, runtime: Runtime) -> None:
    had, has = deployment.spark_version.split("."), runtime.spark_version.split(".")
    if had[:MINOR] != has[:MINOR]:
        raise SpecError(
            f"Runtime {runtime.name!r} is Spark {runtime.spark_version} now, and deployment "
            f"{deployment.number} of stream {deployment.stream!r} was made for "
            f"{deployment.spark_version}. Name the new installation differently, or trigger the "
            "dag with restart=True to apply the upgrade."
        )
