"""A launcher from outside the package: its drivers are started and seen by a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import LaunchError, RecordError
from airflow_streaming.launch.environment import delete_secret, secret_files
from airflow_streaming.launch.port import DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.host import booted_at, is_proved_rebooted, this_host
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch

NAME: Final = "brokered"
BROKER: Final = Path(__file__).with_name("broker.py")


class Unreachable(Exception):
    """The broker does not answer."""


class BrokeredLauncher:
    """
    Asks a broker for everything.

    :param host: Where the broker is.
    :param booted: Returns when the broker's host was booted.
    :param broker: The broker's script; stands in for an address.
    """

    kind = NAME

    def __init__(
        self,
        host: Host | None = None,
        booted: Callable[[], datetime | None] = booted_at,
        broker: Path = BROKER,
    ) -> None:
        self._host, self._booted, self._broker = host or this_host(), booted, broker

    def host(self) -> Host:
        return self._host

    def launch(self, request: LaunchRequest) -> Launch:
        try:
            told = self._ask(
                "start",
                command=request.command,
                environment=dict(request.environment),
                log=str(request.log),
            )
        except Unreachable as err:
            raise LaunchError(str(err)) from err
        return self._launched(request.epoch, told["leader"], str(request.log))

    def find(self, epoch: Epoch) -> Launch | None:
        if epoch.host != self._host:
            return None
        try:
            members = self._ask("look", token=epoch.mark)["members"]
        except Unreachable:
            return None
        return self._launched(epoch, members[0]) if members else None

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._process("look", epoch, launch, heartbeat)

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._process("kill", epoch, launch, heartbeat)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        if launch is not None and launch.log:
            for file in secret_files(Path(launch.log).parent, epoch):
                delete_secret(file)

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        place = f"{file or launch.log} where the broker is"
        if file is None:
            return DriverLog(place=place)
        try:
            text = self._ask("tail", log=str(file), most=most)["text"]
        except Unreachable as err:
            return DriverLog(place=place, trouble=str(err))
        return DriverLog(place=place, tail=text.encode())

    def _launched(self, epoch: Epoch, leader: int, log: str = "") -> Launch:
        return Launch(
            epoch=epoch.number,
            token=epoch.token,
            host=self._host,
            launched_at=datetime.now(UTC),
            handle={"session": str(leader)},
            driver=f"session {leader} of the broker",
            log=log,
        )

    def _is_rebooted(
        self, there: Host, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None
    ) -> bool:
        if heartbeat is None or not self._host.rebooted_since(there):
            return False
        try:
            alive = [launch.launched_at if launch is not None else epoch.created_at, heartbeat()]
        except RecordError:
            return False
        return is_proved_rebooted(self._host, there, booted=self._booted(), alive=alive)

    def _process(
        self, verb: str, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None
    ) -> Process:
        there = launch.host if launch is not None else epoch.host
        if self._is_rebooted(there, epoch, launch, heartbeat):
            return Process.gone(f"host {there.name} was rebooted since")
        if there != self._host:
            return Process.unseen(f"the broker of {there.name} cannot be asked from here")
        try:
            seen = self._ask(verb, token=epoch.mark)
        except Unreachable as err:
            return Process.unseen(str(err))
        if not seen["members"]:
            return Process.gone("the broker sees no process with the driver's token")
        return Process(
            state=ProcessState.SUSPENDED if seen["stopped"] else ProcessState.RUNNING,
            detail=f"the broker sees processes {seen['members']}",
            cpu_seconds=seen["cpu_seconds"],
        )

    def _ask(self, verb: str, **order: Any) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-S", "-E", str(self._broker), verb],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if done.returncode != 0:
            raise Unreachable(f"the broker does not answer: {done.stderr.splitlines()[-1:]}")
        told: dict[str, Any] = json.loads(done.stdout)
        return told
