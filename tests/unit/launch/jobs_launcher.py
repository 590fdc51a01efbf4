"""A complete launcher of another package; docs/launcher-example.md shows it."""

# [START launcher]
from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow_streaming.exceptions import LaunchError
from airflow_streaming.launch.clusters.rest import Unreachable, ask
from airflow_streaming.launch.port import DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch

# What a state of the service proves. One that is not here proves nothing.
STATES = {
    "queued": ProcessState.RUNNING,
    "running": ProcessState.RUNNING,
    "finished": ProcessState.GONE,
    "failed": ProcessState.GONE,
}


class JobsLauncher:
    """Runs drivers as jobs of a service that keeps one job of a name."""

    kind = "jobs"

    def __init__(self, server: str = "", token: str = "") -> None:
        # Called without arguments by the entry point. Credentials never come from a record.
        self._server = server or os.environ.get("JOBS_SERVER", "")
        self._token = token or os.environ.get("JOBS_TOKEN", "")

    def host(self) -> Host:
        return Host(name=self._server)

    def launch(self, request: LaunchRequest) -> Launch:
        epoch = request.epoch
        job = {
            "command": list(request.command),
            "environment": dict(request.environment),
            "log": str(request.log),
        }
        try:
            # The service refuses a second job of a name (409), which is this epoch's first.
            answer = self._ask("PUT", epoch, job)
        except Unreachable as err:
            if err.was_never_sent:
                raise LaunchError(f"Stream {epoch.stream!r} was not submitted: {err}.") from err
            return self._launched(epoch, known=False)
        if not answer.is_success and answer.status != 409:
            reason = answer.text("message")
            raise LaunchError(f"Stream {epoch.stream!r} was refused: {answer.status} {reason}.")
        return self._launched(epoch)

    def find(self, epoch: Epoch) -> Launch | None:
        is_there = self.probe(epoch, None).state is ProcessState.RUNNING
        return self._launched(epoch) if is_there else None

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._seen("GET", epoch)

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        # This service answers once the job has ended. Others are asked again, for 10 s at most.
        return self._seen("DELETE", epoch)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        pass  # nothing of a launch lies on this host

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        place = f"job {self._name(epoch)} of {self._server}"
        try:
            answer = self._ask("GET", epoch, part="/log")
        except Unreachable as err:
            return DriverLog(place=place, trouble=str(err))
        return DriverLog(place=place, tail=answer.raw[-most:] if answer.is_success else None)

    def _seen(self, method: str, epoch: Epoch) -> Process:
        try:
            answer = self._ask(method, epoch)
        except Unreachable as err:
            return Process.unseen(str(err))
        if answer.status == 404 and answer.text("code") == "no_such_job":
            # The service never forgets a job, so there was none. One that does proves nothing here.
            return Process.gone("the service has no job of that name")
        state = STATES.get(answer.text("state")) if answer.is_success else None
        return Process(
            state=state or ProcessState.UNSEEN,
            detail=f"{answer.status}: job is {answer.text('state') or 'not shown'}",
        )

    def _ask(self, method: str, epoch: Epoch, body: Any = None, part: str = "") -> Any:
        if epoch.host.name != self._server:
            # The record names another server, which gets no credentials of this one.
            raise Unreachable(f"{epoch.host.name} is not this launcher's server")
        url = f"{self._server}/jobs/{quote(self._name(epoch))}{part}"
        headers = {"Authorization": f"Bearer {self._token}"}
        return ask(url, method=method, body=body, headers=headers)

    def _name(self, epoch: Epoch) -> str:
        return f"{epoch.stream}-{epoch.number}-{epoch.mark}"

    def _launched(self, epoch: Epoch, *, known: bool = True) -> Launch:
        name = self._name(epoch)
        return Launch(
            epoch=epoch.number,
            token=epoch.token,
            host=epoch.host,
            launched_at=datetime.now(UTC),
            handle={"job": name} if known else {},
            driver=f"job {name}",
            log=f"job {name} of {self._server}",
        )


# [END launcher]
