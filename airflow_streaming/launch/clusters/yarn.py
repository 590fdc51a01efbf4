"""
Drivers as application masters of YARN, submitted by ``spark-submit`` in cluster mode.

An application carries its stream, epoch and mark as tags. Before a submission these are searched,
so the application of a task that died is found again. Applications that other users have submitted
with the same tags do not count. YARN would restart a failed application master; it is limited to
one attempt, since only one controller may restart a stream.

``spark-submit`` puts the driver's package, the script and the configuration into the application's
staging directory, which only its user may read (mode 0700). So secret configuration is in the
properties file, and the driver's part of this package travels as ``--py-files``.

YARN watches the driver's JVM only; ``driver.jvm.die_with_jvm`` ends the Python process with it.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import LaunchError, SpecError, closed
from airflow_streaming.launch.clusters.rest import Unreachable
from airflow_streaming.launch.clusters.shared_table import SharedTable, SharedTables
from airflow_streaming.launch.clusters.submitting import Submit, run_submit
from airflow_streaming.launch.clusters.yarn_api import (
    LIVING,
    Application,
    Negotiate,
    ResourceManagers,
    absence_is_proof,
    driver_among,
    judge,
    judge_node,
    negotiate,
    parse_place,
)
from airflow_streaming.launch.environment import (
    delete_secret,
    properties_text,
    secret_files,
    sweep_secrets,
    write_private,
)
from airflow_streaming.launch.port import ClusterApplication, DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.conf import DIES_WITH_JVM, PRIVATE_CONF
from airflow_streaming.model.spark.secrets import SECRET_NAME

log: Final = logging.getLogger(__name__)
KIND: Final = "yarn"
TAG: Final = "airflow-streaming"
KILL_PATIENCE: Final = 10.0
_POLL: Final = 0.5
_REDACTION: Final = "spark.redaction.regex"
_SHELL: Final = re.compile(r"[\"$`\\\r\n]")
"""A NodeManager writes an application's environment into a shell script between double quotes."""

_TABLES: Final[SharedTables[tuple[Application, ...]]] = SharedTables()
"""Each stream of a triggerer has a launcher of its own; the list is one for all of them."""


def mark_tag(epoch: Epoch) -> str:
    """Return the tag by which an epoch's application is found; only that epoch has it."""
    return f"{TAG}-mark-{epoch.mark}"


def tags_of(epoch: Epoch) -> tuple[str, ...]:
    """Return the tags of an epoch's application; YARN keeps ASCII in lower case, 100 characters each."""
    stream = re.sub(r"[^a-z0-9._-]", "-", epoch.stream.lower())[:60]
    return (
        TAG,
        f"{TAG}-stream-{stream}",
        f"{TAG}-deployment-{epoch.deployment}",
        f"{TAG}-epoch-{epoch.number}",
        mark_tag(epoch),
    )


def submit_conf(epoch: Epoch, application: ClusterApplication) -> dict[str, str]:
    """
    Return the configuration of a submission, with its secrets.

    :raises SpecError: a value of ``env`` would be changed by the shell that YARN puts it through.
    """
    conf = {**application.conf, **application.secret_conf}
    environment = {**application.environment, DIES_WITH_JVM: "1"}
    for name, value in environment.items():
        if _SHELL.search(value):
            raise SpecError(
                f"The value of {name} in env of stream {epoch.stream!r} has a quote, $, `, a backslash or "
                "a line break, which YARN's launch script would change. Give it as secret Spark "
                "configuration, e.g. spark.hadoop.my.password, and read it from there."
            )
    if application.secret_conf:
        # Base64, for the same reason. The driver learns from it which texts to mask in its output.
        text = json.dumps(dict(application.secret_conf)).encode()
        environment[PRIVATE_CONF] = base64.b64encode(text).decode()
    theirs = [tag for tag in conf.get("spark.yarn.tags", "").split(",") if tag.strip()]
    return {
        **conf,
        "spark.app.name": epoch.stream,
        "spark.yarn.submit.waitAppCompletion": "false",
        # One restarter only.
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.tags": ",".join((*theirs, *tags_of(epoch))),
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in environment.items()},
        # The UI shows the configuration, and the environment as a part of it.
        _REDACTION: _redaction(conf, application.defaults),
    }


def _redaction(conf: Mapping[str, str], defaults: str) -> str:
    line = re.compile(rf"^[ \t\f]*{re.escape(_REDACTION)}[\s=:]+(.*)$", re.MULTILINE)
    by_default = line.findall(defaults)[-1:] or [f"(?i){SECRET_NAME}"]
    return rf"(?:{conf.get(_REDACTION, by_default[0].strip())})|spark\.yarn\.appMasterEnv\."


class YarnLauncher:
    """
    Starts drivers as application masters of a YARN cluster.

    :param place: Where new drivers are started, as ``parse_place`` reads it; an existing driver is
        looked up where its epoch says.
    :param folder: Folder of driver logs on this host, by stream; ``None`` if not known.
    :param run: Runs ``spark-submit`` and returns its exit code.
    :param negotiate: Returns the header for a server that requires Kerberos.
    :param clock: Monotonic seconds.
    """

    kind = KIND

    def __init__(
        self,
        place: str = "",
        *,
        folder: Path | None = None,
        run: Submit = run_submit,
        negotiate: Negotiate = negotiate,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._place, self._folder, self._run = place, folder, run
        self._negotiate, self._clock, self._pause = negotiate, clock, pause

    def host(self) -> Host:
        parse_place(self._place)
        return Host(name=self._place)

    def launch(self, request: LaunchRequest) -> Launch:
        epoch, application = request.epoch, request.application
        properties = _option(request.command, "--properties-file")
        if application is None or not properties:
            raise LaunchError(
                f"Stream {epoch.stream!r} was not submitted: the request holds no application for a "
                "cluster, or its command names no properties file."
            )
        managers = self._managers(epoch)
        try:
            found = managers.driver(mark_tag(epoch), {})
        except Unreachable as err:
            request.discard()
            raise LaunchError(f"Stream {epoch.stream!r} was not submitted: {closed(err)}") from err
        if found is not None:
            request.discard()
            return self._launched(epoch, found)
        return self._submit(request, application, Path(properties))

    def find(self, epoch: Epoch) -> Launch | None:
        try:
            found = self._managers(epoch).driver(mark_tag(epoch), {})
            if found is None or self._judge(epoch, found).state is ProcessState.GONE:
                return None
        except (Unreachable, SpecError):
            return None
        return self._launched(epoch, found)

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        try:
            # Only with its user known: a list of the living does not have the first application.
            if user := _recorded(launch).get("user"):
                living = self._table(epoch).get(mark_tag(epoch)) or ()
                listed = driver_among(living, {"user": user})
                if listed is not None and (seen := judge(listed)) is not None:
                    return seen
            # A proof needs a read after the question.
            return self._look(epoch, launch)[1]
        except (Unreachable, SpecError) as err:
            return Process.unseen(str(err))

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        deadline, asked = self._clock() + KILL_PATIENCE, False
        while True:
            try:
                application, seen = self._look(epoch, launch)
                is_over = seen.state is ProcessState.GONE or application is None
                if is_over or self._clock() >= deadline:
                    return seen
                if application is not None and not application.has_ended and not asked:
                    self._managers(epoch).kill(application.id)
                    asked = True
            except (Unreachable, SpecError) as err:
                return Process.unseen(str(err))
            self._pause(_POLL)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        folder = None if self._folder is None else self._folder / epoch.stream
        for file in secret_files(folder, epoch) if folder is not None else ():
            delete_secret(file)

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        try:
            found = self._managers(epoch).driver(mark_tag(epoch), _recorded(launch))
            place = self._place_of_log(epoch, found)
        except (Unreachable, SpecError) as err:
            return DriverLog(place="yarn logs", trouble=str(err))
        return DriverLog(place=place)

    def _submit(
        self, request: LaunchRequest, application: ClusterApplication, properties: Path
    ) -> Launch:
        epoch = request.epoch
        sweep_secrets(properties.parent, epoch.number, keep=request.private_files)
        try:
            conf = submit_conf(epoch, application)
            write_private(properties, properties_text(conf, application.defaults))
            code = self._run(request, request.command, {})
        finally:
            delete_secret(properties)
            request.discard()
        try:
            found, seen = self._look(epoch, None)
        except Unreachable as err:
            log.warning("Whether spark-submit (exit code %d) left one is not known: %s", code, err)
            return self._launched(epoch, None)
        if found is not None:
            return self._launched(epoch, found)
        if code != 0 and seen.state is ProcessState.GONE:
            raise LaunchError(
                f"spark-submit ended with {code} and YARN has no application of stream "
                f"{epoch.stream!r}; its output is in {request.log}."
            )
        return self._launched(epoch, None)

    def _look(self, epoch: Epoch, launch: Launch | None) -> tuple[Application | None, Process]:
        """Return the epoch's application, and the proven state of its driver."""
        found = self._managers(epoch).driver(mark_tag(epoch), _recorded(launch))
        seen = self._judge_absent(epoch, launch) if found is None else self._judge(epoch, found)
        if seen.state is ProcessState.GONE:
            self._table(epoch).forget(mark_tag(epoch))
        return found, seen

    def _judge(self, epoch: Epoch, application: Application) -> Process:
        seen = judge(application)
        if seen is not None:
            return seen
        return judge_node(application, self._managers(epoch).node(application))

    def _judge_absent(self, epoch: Epoch, launch: Launch | None) -> Process:
        if launch is not None and launch.handle.get("application"):
            return Process.unseen("the ResourceManager does not know the application any more")
        if absence_is_proof(self._managers(epoch).info(), epoch.created_at):
            return Process.gone("the ResourceManager has no application with the driver's tag")
        return Process.unseen(
            "the ResourceManager has no application with the driver's tag, and may have forgotten it "
            "in a restart without a state store (yarn.resourcemanager.recovery.enabled)"
        )

    def _managers(self, epoch: Epoch) -> ResourceManagers:
        return ResourceManagers(
            addresses=parse_place(epoch.host.name), user=_user(), negotiate=self._negotiate
        )

    def _table(self, epoch: Epoch) -> SharedTable[tuple[Application, ...]]:
        managers = self._managers(epoch)
        return _TABLES.of(
            epoch.host.name, lambda: SharedTable(lambda: _living(managers), self._clock)
        )

    def _launched(self, epoch: Epoch, found: Application | None) -> Launch:
        return Launch(
            epoch=epoch.number,
            token=epoch.token,
            host=epoch.host,
            launched_at=datetime.now(UTC),
            handle={"application": found.id, "user": found.user} if found is not None else {},
            driver=found.id if found is not None else "a submission that YARN does not show",
            log=self._place_of_log(epoch, found),
        )

    def _place_of_log(self, epoch: Epoch, found: Application | None) -> str:
        if found is None:
            return f"YARN at {epoch.host.name}"
        page = f"{parse_place(epoch.host.name)[0]}/cluster/app/{found.id}"
        return f"{found.logs or page} (after its end: yarn logs -applicationId {found.id})"


def _living(managers: ResourceManagers) -> dict[str, tuple[Application, ...]]:
    found: dict[str, tuple[Application, ...]] = {}
    for one in managers.applications(TAG, LIVING):
        for tag in one.tags:
            if tag.startswith(f"{TAG}-mark-"):
                found[tag] = (*found.get(tag, ()), one)
    return found


def _recorded(launch: Launch | None) -> Mapping[str, str]:
    return {} if launch is None else launch.handle


def _option(command: tuple[str, ...], option: str) -> str:
    return next((value for name, value in pairwise(command) if name == option), "")


def _user() -> str:
    """Return the user that submits, as Hadoop's clients without Kerberos find it."""
    with contextlib.suppress(KeyError, OSError):
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return ""
