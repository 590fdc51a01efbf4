"""The one fake of each port, and a Spark that is only laid out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import LaunchError, RecordError
from airflow_streaming.launch.environment import sweep_secrets
from airflow_streaming.launch.port import DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.host import is_proved_rebooted
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch

FAKE_HOST: Final = Host(
    name="worker-1",
    machine="machine-1",
    boot="boot-1",
    pid_space="pid:[4026531836]",
    cards=("card-1", "card-2b"),
)
_FIRST_PID: Final = 1000


@dataclass
class FakeDriver:
    """The processes of one driver: a leader and its child."""

    launch: Launch
    has_leader: bool = True
    has_child: bool = True
    is_suspended: bool = False
    cpu_seconds: float = 0.0

    @property
    def is_alive(self) -> bool:
        return self.has_leader or self.has_child


@dataclass
class FakeLauncher:
    """
    A launcher whose drivers are entries in memory.

    :param here: The host it is on.
    :param refusal: When set, every launch fails with this sentence.
    :param is_unkillable: Killing changes nothing, as with a process that hangs in the kernel.
    :param launched: Every request, in order; also the refused ones.
    :param killed: Epoch numbers, in the order of the kills.
    :param drivers: By token; shared with the views of other hosts.
    :param booted: When the host was booted.
    """

    here: Host = FAKE_HOST
    kind: str = "local"
    refusal: str | None = None
    is_unkillable: bool = False
    launched: list[LaunchRequest] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    drivers: dict[str, FakeDriver] = field(default_factory=dict)
    booted: datetime | None = None

    def host(self) -> Host:
        return self.here

    def launch(self, request: LaunchRequest) -> Launch:
        self.launched.append(request)
        sweep_secrets(request.log.parent, request.epoch.number, keep=request.private_files)
        if self.refusal is not None:
            raise LaunchError(self.refusal)
        launch = Launch(
            epoch=request.epoch.number,
            token=request.epoch.token,
            host=self.here,
            launched_at=datetime.now(UTC),
            handle={"key": request.epoch.token},
            driver=f"process {_FIRST_PID + len(self.drivers)}",
            log=str(request.log),
        )
        self.drivers[request.epoch.token] = FakeDriver(launch=launch)
        return launch

    def find(self, epoch: Epoch) -> Launch | None:
        driver = self.drivers.get(epoch.token)
        if driver is None or not driver.is_alive or driver.launch.host != self.here:
            return None
        return driver.launch

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        there = launch.host if launch is not None else epoch.host
        if self._is_rebooted(there, epoch, launch, heartbeat):
            return Process.gone(f"host {there.name} was rebooted since the driver was started")
        if self.here != there:
            return Process.unseen(f"driver runs on host {there.name}, this is {self.here.name}")
        driver = self.drivers.get(epoch.token)
        if driver is None or not driver.is_alive:
            return Process.gone(f"no process on host {there.name} carries the driver's token")
        return Process(
            state=ProcessState.SUSPENDED if driver.is_suspended else ProcessState.RUNNING,
            detail=f"{driver.launch.driver} on host {there.name}",
            cpu_seconds=driver.cpu_seconds,
        )

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        self.killed.append(epoch.number)
        seen = self.probe(epoch, launch, heartbeat)
        if seen.state in (ProcessState.RUNNING, ProcessState.SUSPENDED) and not self.is_unkillable:
            self.end(epoch.token)
        return self.probe(epoch, launch, heartbeat)

    def _is_rebooted(
        self, there: Host, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None
    ) -> bool:
        if heartbeat is None or not self.here.rebooted_since(there):
            return False
        try:
            alive = [launch.launched_at if launch is not None else epoch.created_at, heartbeat()]
        except RecordError:
            return False
        return is_proved_rebooted(self.here, there, booted=self.booted, alive=alive)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        for request in self.launched:
            if request.epoch.token == epoch.token:
                request.discard()

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        if launch.host != self.here or (file is not None and launch.log != str(file)):
            return DriverLog(place=f"{launch.log} on host {launch.host.name}")
        return DriverLog(place=launch.log, tail=b"A line of the driver.\n"[-most:])

    # What tests do to drivers, and what they look at.

    def living(self) -> list[int]:
        """Return the epochs whose driver has a process."""
        return [driver.launch.epoch for driver in self.drivers.values() if driver.is_alive]

    def end(self, token: str) -> None:
        """Let every process of a driver be gone, as after an exit or a SIGKILL of its group."""
        self.drivers[token].has_leader = self.drivers[token].has_child = False

    def lose_leader(self, token: str) -> None:
        """Let the leader be gone and its child live on."""
        self.drivers[token].has_leader = False

    def suspend(self, token: str) -> None:
        """Do what SIGSTOP does."""
        self.drivers[token].is_suspended = True

    def resume(self, token: str) -> None:
        """Do what SIGCONT does."""
        self.drivers[token].is_suspended = False

    def use_cpu(self, token: str, seconds: float) -> None:
        """Let a driver work."""
        self.drivers[token].cpu_seconds += seconds

    def seen_from(self, host: Host, booted: datetime | None = None) -> FakeLauncher:
        """Return the same world as a launcher on another host sees it."""
        return replace(self, here=host, booted=booted)

    def reboot(self) -> None:
        """Restart the host: its processes are gone and its boot has a new id."""
        for driver in self.drivers.values():
            if driver.launch.host == self.here:
                self.end(driver.launch.token)
        self.here = replace(self.here, boot=f"{self.here.boot}+1")
        self.booted = datetime.max.replace(tzinfo=UTC)


def make_spark_home(folder: Path, version: str = "4.3.0") -> Path:
    """Lay out as much of a Spark installation as is looked at before a launch."""
    (folder / "bin").mkdir(parents=True)
    (folder / "jars").mkdir()
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    (folder / "RELEASE").write_text(f"Spark {version} built for Hadoop 3.5.0\n")
    submit = folder / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\nexit 1\n")
    submit.chmod(0o755)
    return folder
