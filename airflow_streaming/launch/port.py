"""
The port through which a driver is started, found again, observed and killed.

A launcher handles only processes. Other modules decide which epoch may start, how to treat a silent
driver and whether to kill it. Launchers are opened by their name, see ``registry``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.launch.environment import delete_secret
from airflow_streaming.model.observation import DriverLiveness, Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch

TOKEN_OPTION: Final = "--token"  # noqa: S105  # an option, and the token is an id
"""The wrapper's option whose value is the epoch's mark: how a driver is recognized."""

Heartbeat = Callable[[], datetime | None]
"""Reads when the driver wrote its newest heartbeat; ``None`` when it wrote none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterApplication:
    """
    The same driver for a cluster that starts it on a host of its own.

    It has no ``repr`` of its fields: two of them hold secrets.

    :param master: The driver's source of executors.
    :param main: The driver's wrapper: a file of this host, or a URI that all hosts of the cluster
        can read where ``is_shared``.
    :param archive: The zip with the part of this package that the driver needs; as ``main``.
    :param arguments: Of the wrapper, ``--token`` and the epoch's mark among them.
    :param conf: Spark configuration without secrets.
    :param secret_conf: The rest of it. It reaches the driver by ``PRIVATE_CONF`` in its environment
        or by a file that ``PRIVATE_CONF_FILE`` names, and in no other way.
    :param environment: The stream's environment; any value may be secret.
    :param spark_version: Of the Spark that the deployment was made for.
    :param image: Container image of driver and executors, where the cluster has containers.
    :param defaults: Text of the runtime's ``spark-defaults.conf``, for a launcher that submits with
        a properties file of its own: Spark then ignores the defaults.
    :param is_shared: Whether every host of the cluster can read ``main`` and ``archive``.
    """

    master: str
    main: str
    archive: str
    arguments: tuple[str, ...]
    spark_version: str
    conf: Mapping[str, str] = field(default_factory=dict)
    secret_conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    image: str = ""
    defaults: str = ""
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchRequest:
    """
    A driver to start. It has no ``repr`` of its fields: the environment may hold secrets.

    :param epoch: The right to start it.
    :param command: ``spark-submit`` with all its arguments, the script and the script's arguments;
        among them ``--token`` and the epoch's mark.
    :param environment: The driver's whole environment; no variable is inherited.
    :param log: File for the driver's output, appended to; made private to its owner.
    :param private_files: Files with secrets that the command names. The driver deletes them once
        Spark has read them; a task that fails before the start deletes them instead.
    :param application: The driver for launchers of clusters, which start it elsewhere. ``command``
        is then its submission, or empty.
    """

    epoch: Epoch
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    private_files: tuple[Path, ...] = ()
    application: ClusterApplication | None = None

    def discard(self) -> None:
        """Delete the private files of a driver that is not going to be started."""
        for file in self.private_files:
            delete_secret(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLog:
    """
    A driver's output as seen from here.

    :param place: Where people find all of it.
    :param tail: Its end; ``None`` when it cannot be read from here.
    :param size: Its bytes, if known.
    :param trouble: Why it cannot be read, when it should be there.
    """

    place: str
    tail: bytes | None = None
    size: int | None = None
    trouble: str = ""


class Launcher(Protocol):
    """
    Starts drivers and observes them; one contract test checks the promises of each method.

    A driver is recognized only by its epoch's token. A launch record says where to look first: it
    may be missing, since its writer may have died before writing it, and it may be damaged or
    forged, since others can write to the home. With or without it ``probe`` and ``kill`` give the
    same answers.

    A launcher that cannot reach its cluster, is on another host, or may not see all processes
    answers ``UNSEEN``, with the reason in its detail, and never guesses. ``GONE`` is a proof: it
    stays true, and a new driver may start because of it. (A submission that is under way may still
    start a driver of an older epoch. It reads the fence before it starts a query, so it ends; the
    task that takes the next epoch looks once more afterwards.)

    A cluster that cannot look up a driver by its token answers ``UNSEEN`` for a driver whose launch
    was not recorded.

    The methods may be called by several threads and processes at once, and block.
    """

    kind: str
    """Name under which epochs record who starts their drivers, e.g. ``local``."""

    def host(self) -> Host:
        """
        Return where ``launch`` would start a driver; it is recorded with the epoch before.

        For a cluster it is a name that tells the cluster from others.
        """

    def launch(self, request: LaunchRequest) -> Launch:
        """
        Start the driver and return at once; it outlives the caller.

        The record it returns holds what this launcher needs to find the driver fast
        (``Launch.handle``), what people call it, and where they find its output.

        :raises LaunchError: it could not be started; no process of it exists or will.
        """

    def find(self, epoch: Epoch) -> Launch | None:
        """
        Find the epoch's driver, for a caller that died before recording it.

        :returns: A launch record; ``None`` if no driver exists or none can be seen from here. Only
            ``probe`` distinguishes the two.
        """

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        """
        Look at the driver's processes; it never raises.

        :param heartbeat: Read when the host seems to have been rebooted; without it a reboot does
            not prove that the driver is gone.
        :returns: ``GONE`` only when no process of the driver is left anywhere, including processes
            that outlived their leader; ``SUSPENDED`` when one of them is stopped and may be
            continued; ``UNSEEN`` when the state cannot be seen from here.
        """

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        """
        Kill every process of the driver and wait at most 10 s for the proof; it never raises.

        It may be repeated, and does nothing to a driver that cannot be seen from here.

        :param heartbeat: As with ``probe``.
        :returns: The last look: ``GONE``, or the remaining processes and the reason.
        """

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        """Delete the files with secrets that the launch of a gone driver left on this host."""

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        """
        Return the end of the driver's output; it never raises.

        :param launch: Untrusted: a path in it is reported, and opened only where it equals
            ``file``.
        :param file: The driver's log as the caller derives it; ``None`` where only the launcher
            knows.
        :param most: Bytes to return at most.
        """


@runtime_checkable
class EndWatcher(Protocol):
    """Optional for a launcher: reports the end of a driver where its system supports it."""

    def open_end(self, epoch: Epoch, launch: Launch | None) -> DriverEnd | None:
        """
        Return a descriptor that becomes readable when a process of the driver ends.

        It only prompts a look, and polls continue beside it, so it may be early or never come. It
        never raises.

        :returns: ``None`` where the end cannot be watched from here, and for a driver that is gone.
        """


def open_driver_end(launcher: Launcher, epoch: Epoch, launch: Launch | None) -> DriverEnd | None:
    """Ask a launcher to watch for a driver's end; ``None`` where it has no means to."""
    return launcher.open_end(epoch, launch) if isinstance(launcher, EndWatcher) else None


def driver_fate(home: StreamHome, launcher: Launcher | None) -> tuple[DriverLiveness, str]:
    """
    Return whether the newest driver is gone, with the evidence in words.

    :param launcher: How its processes can be seen from here; ``None`` for no look.
    """
    epoch = home.newest_epoch()
    if epoch is None:
        return DriverLiveness.NONE, ""
    death = home.death(epoch.number)
    if death is not None:
        return DriverLiveness.DEAD, death.evidence
    if launcher is None:
        return DriverLiveness.UNPROVED, "no look was taken"
    launch = home.launch(epoch.number)
    process = launcher.probe(epoch, launch, heartbeat=lambda: home.heartbeat(epoch.number))
    if process.state is ProcessState.GONE:
        return DriverLiveness.DEAD, process.detail
    if process.state is not ProcessState.UNSEEN:
        return DriverLiveness.ALIVE, process.detail
    if home.exit(epoch.number) is not None:
        # By its own word its queries have ended, and they alone write to a checkpoint.
        return DriverLiveness.DEAD, "it left its exit record"
    return DriverLiveness.UNPROVED, process.detail
