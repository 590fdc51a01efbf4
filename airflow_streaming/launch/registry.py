"""
Launchers by name: the only place where they are created.

An epoch records the name of the launcher that starts its driver, and only that one can look at it.
So callers open the launchers here and get one that passes every call on to the epoch's launcher.
Other packages add launchers by an entry point of the group ``airflow_streaming.launchers``: its
name is the launcher's, and it leads to a callable without arguments that returns a ``Launcher``. A
launcher that is not installed, or cannot be loaded, sees nothing and starts nothing; the drivers it
has started live on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.cluster_policy import ClusterPolicy, ask_none
from airflow_streaming.launch.driver_end import DriverEnd
from airflow_streaming.launch.port import (
    DriverLog,
    Heartbeat,
    Launcher,
    LaunchRequest,
    open_driver_end,
)
from airflow_streaming.model.observation import Process
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.launchers import (
    APACHE_OPERATOR,
    KUBEFLOW_OPERATOR,
    KUBERNETES,
    LOCAL,
    STANDALONE,
    YARN,
)

ON_KUBERNETES: Final = (KUBERNETES, APACHE_OPERATOR, KUBEFLOW_OPERATOR)
"""Launchers whose drivers are pods."""
GROUP: Final = "airflow_streaming.launchers"

log: Final = logging.getLogger(__name__)


def open_launcher(
    name: str = LOCAL,
    *,
    folder: Path | None = None,
    cluster: str = "",
    policy: ClusterPolicy = ask_none,
) -> Launcher:
    """
    Return a launcher that sees the drivers of all launchers.

    :param name: The launcher that starts new drivers.
    :param folder: Folder of driver logs on this host, by stream; ``None`` if not known.
    :param cluster: Where that launcher starts new drivers: the name of its ``host()``. It is not
        needed to look at drivers, whose epochs say where they are.
    :param policy: The recorded clusters that may be contacted; none by default.
    """
    return RecordedLaunchers(name, folder, cluster, policy)


class RecordedLaunchers:
    """
    Passes every call on to the epoch's launcher.

    Each launcher is created at its first use and kept, since it may cache earlier looks. An epoch
    whose cluster the policy refuses gets ``RefusedCluster`` in every method.

    :param name: The launcher that starts new drivers.
    :param folder: See ``open_launcher``.
    :param cluster: See ``open_launcher``.
    :param policy: See ``open_launcher``.
    """

    def __init__(
        self,
        name: str,
        folder: Path | None = None,
        cluster: str = "",
        policy: ClusterPolicy = ask_none,
    ) -> None:
        self.kind, self._folder, self._cluster, self._policy = name, folder, cluster, policy
        self._made: dict[str, Launcher] = {}

    def host(self) -> Host:
        return self._named(self.kind).host()

    def launch(self, request: LaunchRequest) -> Launch:
        return self._of(request.epoch).launch(request)

    def find(self, epoch: Epoch) -> Launch | None:
        found = self._of(epoch).find(epoch.as_launched)
        return None if found is None else replace(found, epoch=epoch.number)

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._of(epoch).probe(*_launched(epoch, launch), heartbeat)

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        return self._of(epoch).kill(*_launched(epoch, launch), heartbeat)

    def open_end(self, epoch: Epoch, launch: Launch | None) -> DriverEnd | None:
        return open_driver_end(self._of(epoch), *_launched(epoch, launch))

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        self._of(epoch).clean_up(*_launched(epoch, launch))

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        return self._of(epoch).logs(epoch.as_launched, launch, file, most)

    def _of(self, epoch: Epoch) -> Launcher:
        refusal = self._policy(epoch)
        return RefusedCluster(epoch.launcher, refusal) if refusal else self._named(epoch.launcher)

    def _named(self, name: str) -> Launcher:
        if name not in self._made:
            cluster = self._cluster if name == self.kind else ""
            self._made[name] = _make(name, self._folder, cluster)
        return self._made[name]


def _launched(epoch: Epoch, launch: Launch | None) -> tuple[Epoch, Launch | None]:
    """Return both records as they were when the driver was started; see ``Epoch.as_launched``."""
    if launch is not None and launch.token != epoch.token:
        launch = None  # of another driver
    if epoch.promotes is None:
        return epoch, launch
    return epoch.as_launched, launch and replace(launch, epoch=epoch.promotes)


class MissingLauncher:
    """
    Stands in for a launcher that cannot be had here.

    :param reason: Why it cannot be had, and what to do.
    """

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self._reason = kind, reason

    def host(self) -> Host:
        """
        Refuse: the host is read before an epoch is recorded, so no epoch is wasted.

        :raises SpecError: always.
        """
        raise SpecError(f"No driver can be started: {self._reason}")

    def launch(self, request: LaunchRequest) -> Launch:
        raise LaunchError(
            f"The driver of stream {request.epoch.stream!r} was not started: {self._reason}"
        )

    def find(self, epoch: Epoch) -> Launch | None:
        return None

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return Process.unseen(self._reason)

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        return Process.unseen(self._reason)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        """Do nothing: whether the driver still reads its files cannot be seen from here."""

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        return DriverLog(place=f"{launch.log} on host {launch.host.name}", trouble=self._reason)


class RefusedCluster(MissingLauncher):
    """
    Stands in for a launcher whose cluster this process may not ask.

    :param reason: Why, and what to do.
    """

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        return replace(super().probe(epoch, launch, heartbeat), was_asked=False)


def _local(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.local import LocalLauncher  # needs psutil

    return LocalLauncher(folder=folder)


def _standalone(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.clusters.standalone import StandaloneLauncher

    return StandaloneLauncher(cluster)


def _kubernetes(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.clusters.kubernetes import KubernetesLauncher

    return KubernetesLauncher(cluster, folder=folder)


def _yarn(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.clusters.yarn import YarnLauncher

    return YarnLauncher(cluster, folder=folder)


def _apache_operator(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.clusters.spark_operators import OperatorLauncher

    return OperatorLauncher(APACHE_OPERATOR, cluster)


def _kubeflow_operator(folder: Path | None, cluster: str) -> Launcher:
    from airflow_streaming.launch.clusters.spark_operators import OperatorLauncher

    return OperatorLauncher(KUBEFLOW_OPERATOR, cluster)


_OWN: Final[dict[str, Callable[[Path | None, str], Launcher]]] = {
    LOCAL: _local,
    STANDALONE: _standalone,
    KUBERNETES: _kubernetes,
    YARN: _yarn,
    APACHE_OPERATOR: _apache_operator,
    KUBEFLOW_OPERATOR: _kubeflow_operator,
}


def _make(name: str, folder: Path | None, cluster: str) -> Launcher:
    try:
        own = _OWN.get(name)
        if own is not None:
            return own(folder, cluster)
        from importlib.metadata import entry_points  # heavy, and not needed for ours

        # An entry point takes the place of none of ours: a record names who can see a driver.
        for found in entry_points(group=GROUP, name=name):
            made: Launcher = found.load()()
            return made
    except Exception as err:
        log.warning("Launcher %r cannot be loaded.", name, exc_info=True)
        return MissingLauncher(name, f"launcher {name!r} cannot be loaded here: {err}")
    return MissingLauncher(
        name,
        f"launcher {name!r} is not installed here. Install the package that provides it as an "
        f"entry point of the group {GROUP!r}.",
    )
