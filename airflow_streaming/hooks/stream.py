"""Airflow's side of a stream: its connections, settings and spec, joined to the rooms below."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from airflow.sdk import BaseHook

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.lanes import other_lane
from airflow_streaming.core.names import numbered
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live_lane
from airflow_streaming.hooks._lane import for_lane
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.launch.application import locate_application, read_application
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.keeper import Keeper, Submission
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.package import build_driver_package
from airflow_streaming.launch.port import Launcher, LaunchRequest
from airflow_streaming.launch.private import write_private
from airflow_streaming.launch.properties import properties_text, spark_defaults
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.observe.stream import Observer
from airflow_streaming.settings import read_settings
from airflow_streaming.version_compat import check_airflow

MINOR: Final = 2
"""Parts of a Spark version that a deployment holds on to; patch releases read each other's state."""


class SparkStreamHook(BaseHook):
    """
    Joins one stream's spec with the connection, runtime and home it names.

    It acts on the lane of the stream that was live when it first looked, unless a lane is given.

    :param spec: The stream, rendered.
    :param conn_id: Spark connection: where ``spark-submit`` sends the application.
    :param home_conn_id: Connection with credentials for the home.
    :param by: Who acts, for the records.
    :param folders: Where a relative application path may start.
    :param lane: Act on this lane of the stream, live or not.
    :raises SpecError: the spec cannot be, or the lane is none of the stream's.
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
    ) -> None:
        super().__init__()
        check_airflow()
        spec.check()
        if lane is not None and lane not in (spec.name, other_lane(spec.name)):
            raise SpecError(f"{lane!r} is no lane of stream {spec.name!r}.")
        self.asked, self.conn_id, self.home_conn_id = spec, conn_id, home_conn_id
        self.by, self.folders, self._given_lane = by, folders, lane

    def lane(self, lane: str) -> SparkStreamHook:
        """
        Return the hook of one lane of this stream, live or not.

        Everything of it is that lane's: ``home``, ``keeper``, ``observer()``, ``spec``.

        :raises SpecError: it is no lane of this stream.
        """
        return SparkStreamHook(
            self.asked,
            conn_id=self.conn_id,
            home_conn_id=self.home_conn_id,
            by=self.by,
            folders=self.folders,
            lane=lane,
        )

    @cached_property
    def streams(self) -> Home:
        """The records of all streams of the home."""
        return StreamHomeHook(self.asked.home, self.home_conn_id).get_conn()

    @cached_property
    def home(self) -> StreamHome:
        """The records of the lane this hook acts on: the given one, or the one that is live."""
        return self.streams.stream(self._given_lane or self.live_lane())

    @cached_property
    def spec(self) -> StreamSpec:
        """The stream as its dag asks for it, for the lane this hook acts on."""
        return for_lane(self.asked, self.streams, self.home)

    def live_lane(self) -> str:
        """Look which lane is live now."""
        return live_lane(self.streams, self.asked.name)

    @cached_property
    def launcher(self) -> Launcher:
        """How drivers are started and found."""
        return LocalLauncher()

    @cached_property
    def keeper(self) -> Keeper:
        """Who acts on the stream."""
        return Keeper(self.home, self.launcher, spec=self.spec, submit=self.submit, by=self.by)

    def observer(self, memory: dict[str, Any] | None = None, *, follows: bool = False) -> Observer:
        """
        Return who looks at the stream.

        :param memory: What a trigger has learnt by listening.
        :param follows: Look each time whether the lane is still the live one.
        """
        return Observer(
            self.home,
            self.launcher,
            rules=self.asked.health,
            policy=self.asked.restart,
            memory=memory,
            live=self.live_lane if follows else None,
        )

    def proposal(
        self, *, fresh: bool = False, carried_on: Mapping[str, str] | None = None
    ) -> tuple[Deployment, bytes]:
        """
        Return the deployment the spec asks for, and its script; see ``Keeper.propose``.

        :raises SpecError: the script or the runtime is not there.
        """
        runtime = self.runtime(self.asked.runtime)
        location = locate_application(self.asked.application, self.folders)
        source = read_application(location)
        proposed = self.keeper.propose(
            runtime, location, source, fresh=fresh, carried_on=carried_on
        )
        return proposed, source

    def runtime(self, name: str) -> Runtime:
        """Return a Spark installation by its name in ``[streaming] runtimes``."""
        return resolve_runtime(name, read_settings().runtimes)

    def submit(self, submission: Submission) -> LaunchRequest:
        """
        Build the driver's command, environment and log.

        The configuration goes to a file that only this user can read and that the driver deletes.
        """
        from airflow_streaming.hooks.spark_submit import build_submit_command

        epoch, deployment = submission.epoch, submission.deployment
        runtime = self.runtime(deployment.runtime)
        _check_same_spark(deployment, runtime)
        settings = read_settings()
        log = settings.driver_log(epoch.stream, epoch.number)
        package = build_driver_package(settings.driver_folder)
        properties = log.parent / f"{numbered(epoch.number)}-{epoch.token[:8]}.conf"
        command = build_submit_command(
            conn_id=self.conn_id,
            runtime=runtime,
            stream=epoch.stream,
            properties_file=properties,
            main=package.main,
            py_files=(str(package.archive), *deployment.py_files),
            jars=deployment.jars,
            packages=deployment.packages,
            files=deployment.files,
            arguments=(
                *("--home", self.asked.home, "--stream", epoch.stream),
                *("--epoch", str(epoch.number), "--token", epoch.token),
                *("--properties-file", str(properties)),
            ),
        )
        environment = driver_environment(os.environ, runtime, self.asked.env)
        defaults = spark_defaults(runtime, environment)
        write_private(properties, properties_text(submission.conf, defaults))
        return LaunchRequest(
            epoch=epoch,
            command=command,
            environment=environment,
            log=log,
            private_files=(properties, properties.with_suffix(".keytab")),
        )


def _check_same_spark(deployment: Deployment, runtime: Runtime) -> None:
    had, has = deployment.spark_version.split("."), runtime.spark_version.split(".")
    if had[:MINOR] != has[:MINOR]:
        raise SpecError(
            f"Runtime {runtime.name!r} is Spark {runtime.spark_version} now, and deployment "
            f"{deployment.number} of stream {deployment.stream!r} was made for "
            f"{deployment.spark_version}. Name the new installation differently, or trigger the "
            "dag with restart=True to apply the upgrade."
        )
