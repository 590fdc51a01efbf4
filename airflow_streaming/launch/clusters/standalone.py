"""
Drivers in the cluster mode of a standalone Spark cluster, through its REST submission server.

``spark-submit`` refuses Python there; the submission server takes it, with Spark's own
``SparkSubmit`` as the main class. The master identifies a driver only by the id that it assigns. A
driver whose launch was not recorded cannot be looked up: ``UNSEEN``.

Proof by the master's states (Spark 4.3, ``DriverRunner`` and ``Master``):

- ``FINISHED``, ``FAILED`` and ``KILLED`` are reported by the worker once the driver's JVM has
  ended, or set for a driver that no worker had taken.
- ``ERROR`` comes with an exception when the worker could not run the driver. Without one the master
  has lost the worker, on whose host the driver may run on.
- ``UNKNOWN`` is a driver after a fail-over, until its worker has registered with the new master.
- A driver that the master does not know was forgotten, by a restart without recovery or after
  ``spark.deploy.retainedDrivers`` others. It may be alive.

The worker watches the driver's JVM only; ``driver.jvm.die_with_jvm`` ends the Python process with
it.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.clusters.rest import Answer, Unreachable, ask
from airflow_streaming.launch.clusters.standalone_pages import UI_PORT, read_log
from airflow_streaming.launch.port import ClusterApplication, DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.conf import DIES_WITH_JVM, PRIVATE_CONF

KIND: Final = "standalone"
REST_PORT: Final = 6066
log: Final = logging.getLogger(__name__)
KILL_PATIENCE: Final = 10.0
_POLL: Final = 0.5
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_OPENED: Final = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio"),
    *("util", "util.concurrent", "util.concurrent.atomic"),
)
_OPENED_INSIDE: Final = (
    *("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
_MODULES: Final = " ".join(
    [
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_INSIDE),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
    ]
)
"""``JavaModuleOptions`` of Spark 3.5; a Java that does not know an option ignores it."""
_S3A: Final = "spark.hadoop.fs.s3a."
_CREDENTIALS: Final = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}
"""Environment variables by the option of S3A that they replace."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MASTERS: Final = re.compile(
    r"spark://([A-Za-z0-9._-]+:[0-9]{1,5}(?:,[A-Za-z0-9._-]+:[0-9]{1,5})*)(?:\?ui=([0-9]{1,5}))?"
)


class DriverState(StrEnum):
    """States of a driver as the master gives them."""

    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    RELAUNCHING = "RELAUNCHING"
    UNKNOWN = "UNKNOWN"
    KILLED = "KILLED"
    FAILED = "FAILED"
    ERROR = "ERROR"


_MEANING: Final[Mapping[DriverState, ProcessState]] = {
    DriverState.SUBMITTED: ProcessState.RUNNING,
    DriverState.RUNNING: ProcessState.RUNNING,
    DriverState.RELAUNCHING: ProcessState.RUNNING,
    DriverState.UNKNOWN: ProcessState.UNSEEN,
    DriverState.FINISHED: ProcessState.GONE,
    DriverState.KILLED: ProcessState.GONE,
    DriverState.FAILED: ProcessState.GONE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """
    A master's answer about one driver.

    :param state: ``None`` if it is missing, or unknown to this release.
    :param is_found: Whether the master knows the driver.
    :param message: The exception of the state, or the reason for a missing answer.
    :param worker: Host and port of the driver's worker.
    :param worker_id: Its id; empty if missing or invalid.
    """

    state: DriverState | None
    is_found: bool
    message: str = ""
    worker: str = ""
    worker_id: str = ""

    @classmethod
    def of(cls, answer: Answer) -> DriverStatus:
        """Read an answer; a malformed answer is not a statement about the driver."""
        known = {state.value: state for state in DriverState}
        worker_id = answer.text("workerId")
        return cls(
            state=known.get(answer.text("driverState")),
            is_found=answer.is_success and answer.body.get("success") is True,
            message=answer.text("message"),
            worker=answer.text("workerHostPort"),
            worker_id=worker_id if _ID.fullmatch(worker_id) else "",
        )


def state_of(status: DriverStatus) -> ProcessState:
    """Return the state of a driver's processes that a master's answer proves."""
    if not status.is_found or status.state is None:
        return ProcessState.UNSEEN
    if status.state is DriverState.ERROR:
        # Without an exception it is not the worker that says so: the master has lost the worker.
        return ProcessState.GONE if status.message else ProcessState.UNSEEN
    return _MEANING[status.state]


def joined(statuses: list[DriverStatus]) -> DriverStatus:
    """
    Return the one answer of several masters that counts.

    Of masters with a standby only the active one knows drivers; the others refuse to say.
    """
    return next((status for status in statuses if status.is_found), statuses[0])


def cluster_place(hosts: Iterable[str], rest_port: int | str, ui_port: int | str) -> str:
    """Return what this launcher calls a cluster: its masters, and their ports as they are needed."""
    masters = ",".join(f"{host}:{rest_port}" for host in hosts)
    return f"spark://{masters}" + ("" if str(ui_port) == str(UI_PORT) else f"?ui={ui_port}")


def rest_addresses(place: str) -> tuple[str, ...]:
    """
    Return the addresses of the submission servers of a cluster.

    :param place: ``spark://HOST:PORT,HOST:PORT``, with the ports of the submission servers, and
        ``?ui=PORT`` where the masters' pages have another port than 8080.
    :raises SpecError: it is malformed.
    """
    return tuple(f"http://{address}" for address in _parsed(place)[1].split(","))


def ui_addresses(place: str) -> tuple[str, ...]:
    """Return the addresses of the masters' pages; raises as ``rest_addresses`` does."""
    match = _parsed(place)
    hosts = (address.partition(":")[0] for address in match[1].split(","))
    return tuple(f"http://{host}:{match[2] or UI_PORT}" for host in hosts)


def _parsed(place: str) -> re.Match[str]:
    match = _MASTERS.fullmatch(place)
    if match is None:
        raise SpecError(
            f"{place!r} is not the address of standalone masters in cluster mode. Give "
            f"spark://HOST:{REST_PORT}, or several as spark://HOST:{REST_PORT},HOST:{REST_PORT}, with "
            "the ports of their REST submission servers (spark.master.rest.enabled=true)."
        )
    return match


def submission(application: ClusterApplication, epoch: Epoch) -> dict[str, Any]:
    """
    Return the body of a submission.

    Everything in ``sparkProperties`` is visible on the driver's command line, for all users of the
    worker's host, and in the master's pages; so the secrets are in the environment.
    """
    options = [
        *("--master", application.master, "--deploy-mode", "client"),
        *("--name", epoch.stream),
        *_listed("--py-files", (application.archive, *application.py_files)),
        *_listed("--jars", application.jars),
        *_listed("--packages", application.packages),
        *_listed("--files", application.files),
    ]
    environment = {
        **download_credentials(application),
        **application.environment,
        DIES_WITH_JVM: "1",
    }
    if application.secret_conf:
        environment[PRIVATE_CONF] = json.dumps(dict(application.secret_conf))
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": application.spark_version,
        "mainClass": "org.apache.spark.deploy.SparkSubmit",
        "appResource": "",
        "appArgs": [*options, application.main, *application.arguments],
        "environmentVariables": environment,
        "sparkProperties": {
            **application.conf,
            **module_options(application),
            "spark.app.name": epoch.stream,
            "spark.master": application.master,
            "spark.submit.deployMode": "cluster",
            # One restarter only.
            "spark.driver.supervise": "false",
        },
    }


def module_options(application: ClusterApplication) -> dict[str, str]:
    """
    Return the driver's Java options with the packages that Spark 3 needs from Java 17.

    The REST server of Spark 3.5 adds none, and a driver without them fails with ``IllegalAccessError`` (measured with
    3.5.9). Spark 4 adds them itself.
    """
    if not application.spark_version.startswith("3."):
        return {}
    given = application.conf.get(_JAVA_OPTIONS, "")
    return {_JAVA_OPTIONS: f"{_MODULES} {given}".rstrip()}


def download_credentials(application: ClusterApplication) -> dict[str, str]:
    """
    Return the variables by which S3A opens the driver's package.

    ``SparkSubmit`` downloads ``main.py`` and the archive before any Python runs, so before the secret configuration is
    read. S3A's default chain of credentials reads these variables (Hadoop's documentation of ``hadoop-aws``). They are
    empty for a package on another store, and where no key is configured for its bucket.
    """
    place = urlsplit(application.main)
    if place.scheme != "s3a":
        return {}
    conf = {**application.conf, **application.secret_conf}
    found = {
        variable: conf.get(f"{_S3A}bucket.{place.netloc}.{key}") or conf.get(f"{_S3A}{key}")
        for key, variable in _CREDENTIALS.items()
    }
    return {variable: value for variable, value in found.items() if value}


def _listed(option: str, entries: tuple[str, ...]) -> tuple[str, ...]:
    return (option, ",".join(entries)) if entries else ()


class StandaloneLauncher:
    """
    Starts drivers on the workers of a standalone cluster.

    :param master: The cluster of new drivers, as ``rest_addresses`` reads it; an existing driver is
        looked up where its epoch says.
    :param clock: Monotonic seconds.
    """

    kind = KIND

    def __init__(
        self,
        master: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._master, self._clock, self._pause = master, clock, pause

    def host(self) -> Host:
        rest_addresses(self._master)
        return Host(name=self._master)

    def launch(self, request: LaunchRequest) -> Launch:
        epoch, application = request.epoch, request.application
        if application is None or not epoch.is_carried_by(application.arguments):
            raise LaunchError(
                f"Stream {epoch.stream!r} was not submitted: the request holds no application with "
                f"the token of epoch {epoch.number}, so its driver could not be recognized."
            )
        submitted = self._submit(epoch, submission(application, epoch))
        return Launch(
            epoch=epoch.number,
            token=epoch.token,
            host=epoch.host,
            launched_at=datetime.now(UTC),
            handle={"submission": submitted} if submitted else {},
            driver=submitted or "a submission whose answer was lost",
            log=f"{submitted or 'the driver'} at {epoch.host.name}",
        )

    def find(self, epoch: Epoch) -> Launch | None:
        return None

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        submitted = _submission_of(launch)
        if submitted is None:
            return Process.unseen(
                f"no submission of epoch {epoch.number} is recorded, and masters can look up "
                "a driver only by its submission id"
            )
        try:
            status = self._status(epoch, submitted)
        except (Unreachable, SpecError) as err:
            return Process.unseen(str(err))
        return self._judge(epoch, submitted, status)

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        deadline = self._clock() + KILL_PATIENCE
        submitted, is_asked = _submission_of(launch), False
        while True:
            seen = self.probe(epoch, launch, heartbeat)
            if seen.state is not ProcessState.RUNNING or self._clock() >= deadline:
                return seen
            if submitted is not None and not is_asked:
                is_asked = self._kill(epoch, submitted)
            self._pause(_POLL)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        """Do nothing: no file of a launch lies on this host."""

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        submitted = _submission_of(launch)
        place = f"stdout and stderr of {submitted or 'the driver'} on its worker"
        try:
            status = self._status(epoch, submitted) if submitted else None
            if submitted is None or status is None or not status.worker_id:
                return DriverLog(place=place)
            return read_log(ui_addresses(epoch.host.name), submitted, status.worker_id, most)
        except (Unreachable, SpecError) as err:
            return DriverLog(place=place, trouble=str(err))

    def _judge(self, epoch: Epoch, submitted: str, status: DriverStatus) -> Process:
        state = state_of(status)
        message = f"{submitted} is {status.state or 'not known'} at {epoch.host.name}"
        if status.worker:
            message = f"{message}, worker {status.worker}"
        if status.message:
            message = f"{message}: {_first(status.message)}"
        return Process(state=state, detail=message)

    def _submit(self, epoch: Epoch, body: Mapping[str, Any]) -> str:
        """
        Submit to the active master and return the driver's id; empty when the answer was lost.

        :raises LaunchError: no master took it.
        """
        refusals = []
        for address in rest_addresses(epoch.host.name):
            try:
                answer = ask(f"{address}/v1/submissions/create", method="POST", body=body)
            except Unreachable as err:
                if not err.was_never_sent:
                    # The driver may have been accepted, so no other master gets the submission.
                    log.warning("Whether the driver was taken is not known: %s", err)
                    return ""
                refusals.append(str(err))
                continue
            submitted = answer.text("submissionId")
            if (
                answer.is_success
                and answer.body.get("success") is True
                and _ID.fullmatch(submitted)
            ):
                return submitted
            refusals.append(
                f"{address} refuses ({answer.status}): {_first(answer.text('message'))}"
            )
        raise LaunchError(
            f"No master of {epoch.host.name} took the driver of stream {epoch.stream!r}: "
            f"{'; '.join(refusals)}. Check that a master is active and "
            "has spark.master.rest.enabled=true."
        )

    def _status(self, epoch: Epoch, submitted: str) -> DriverStatus:
        return self._ask_all(epoch, f"status/{submitted}")

    def _kill(self, epoch: Epoch, submitted: str) -> bool:
        try:
            return self._ask_all(epoch, f"kill/{submitted}", method="POST").is_found
        except Unreachable:
            return False

    def _ask_all(self, epoch: Epoch, path: str, method: str = "GET") -> DriverStatus:
        found, silent = [], []
        for address in rest_addresses(epoch.host.name):
            try:
                answer = ask(f"{address}/v1/submissions/{path}", method=method)
            except Unreachable as err:
                silent.append(err)
                continue
            found.append(DriverStatus.of(answer))
            if found[-1].is_found:
                break
        if not found:
            raise silent[0]
        return joined(found)


def _submission_of(launch: Launch | None) -> str | None:
    # The record may be damaged or forged, and the id becomes part of an address.
    submitted = launch.handle.get("submission", "") if launch is not None else ""
    return submitted if _ID.fullmatch(submitted) else None


def _first(message: str) -> str:
    lines = message.splitlines()
    return lines[-1].strip()[:300] if lines else "no reason given"
