"""
ResourceManagers and NodeManagers of YARN, played on real HTTP servers of the loopback address.

No Hadoop server runs here. The answers have the fields, types and spellings of Apache Hadoop's pages
*ResourceManager REST API's* and *NodeManager REST API's* (3.4); what they mean, above all that a
terminal state comes before the end of a process, is played by hand.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from airflow_streaming.driver.launch_context import properties_in
from airflow_streaming.launch.port import LaunchRequest
from tests.unit.launch.recorded_master import JsonServer

STARTED: Final = 1795377600000
"""When the cluster was started: before any test, in milliseconds since 1970."""
_ids: Final = itertools.count(1)


def not_found(what: str) -> tuple[int, Any]:
    error = {
        "exception": "NotFoundException",
        "message": f"java.lang.Exception: {what} not found",
        "javaClassName": "org.apache.hadoop.yarn.webapp.NotFoundException",
    }
    return 404, {"RemoteException": error}


@dataclass
class Node:
    """
    One NodeManager.

    :param containers: State by container.
    :param is_silent: It gives no answer.
    """

    containers: dict[str, str] = field(default_factory=dict)
    is_silent: bool = False
    started: int = STARTED

    def __post_init__(self) -> None:
        self._server = JsonServer(self._answer)
        self.address = self._server.address

    def close(self) -> None:
        self._server.close()

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.is_silent:
            return 0, {}
        if path == "/ws/v1/node/info":
            info = {"id": self.address, "nodeHealthy": True, "nmStartupTime": self.started}
            return 200, {"nodeInfo": info}
        container = path.removeprefix("/ws/v1/node/containers/")
        if container not in self.containers:
            return not_found(f"container with id, {container},")
        state = self.containers[container]
        return 200, {"container": {"id": container, "state": state, "exitCode": -1000}}


@dataclass
class Cluster:
    """What the ResourceManagers of one cluster share."""

    node: Node = field(default_factory=Node)
    applications: dict[str, dict[str, Any]] = field(default_factory=dict)
    submitted: list[dict[str, str]] = field(default_factory=list)
    killed_by: list[str] = field(default_factory=list)
    store: str = "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore"
    active_since: int = STARTED
    kills_at_once: bool = True

    def run(self, request: LaunchRequest, command: tuple[str, ...], _: Mapping[str, str]) -> int:
        """Stand in for ``spark-submit``."""
        path = command[command.index("--properties-file") + 1]
        with open(path) as file:  # noqa: PTH123
            conf = properties_in(file.read())
        self.submitted.append(conf)
        self.add(conf["spark.yarn.tags"])
        return 0

    def add(self, tags: str, **fields: Any) -> dict[str, Any]:
        number = next(_ids)
        name = f"application_{STARTED}_{number:04}"
        container = f"container_{STARTED}_{number:04}_01_000001"
        self.node.containers[container] = "RUNNING"
        application = {
            "id": name,
            "user": "airflow",
            "name": "orders",
            "queue": "default",
            "state": "RUNNING",
            "finalStatus": "UNDEFINED",
            "diagnostics": "",
            "clusterId": STARTED,
            "applicationType": "SPARK",
            "applicationTags": tags.lower(),
            "startedTime": STARTED + 86_400_000 + number,
            "finishedTime": 0,
            "trackingUrl": f"http://rm1:8088/proxy/{name}/",
            "amContainerLogs": f"http://{self.node.address}/node/containerlogs/{container}/airflow",
            "amHostHttpAddress": self.node.address,
            **fields,
        }
        self.applications[name] = application
        return application

    def container(self, name: str) -> str:
        return name.replace("application", "container") + "_01_000001"

    def end(self, name: str, state: str = "FAILED", diagnostics: str = "") -> None:
        """End an application and its process."""
        self.applications[name].update(state=state, diagnostics=diagnostics)
        self.node.containers.pop(self.container(name), None)

    def answer(self, method: str, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        if path == "/apps":
            return 200, {"apps": self._listed(query)}
        name = path.split("/")[2]
        if name not in self.applications:
            return not_found(f"app with id: {name}")
        if method == "PUT":
            if not query.get("user.name"):
                return 403, {"RemoteException": {"message": "The default static user cannot"}}
            self.killed_by += query["user.name"]
            self.applications[name]["state"] = "KILLED"
            if self.kills_at_once:
                self.end(name, "KILLED", "Application killed by user.")
            return 202, {"state": "ACCEPTED"}
        return 200, {"app": self.applications[name]}

    def _listed(self, query: Mapping[str, list[str]]) -> Any:
        tags = set(",".join(query.get("applicationTags", [])).split(","))
        states = set(",".join(query.get("states", [])).split(",")) - {""}
        found = [
            one
            for one in self.applications.values()
            if tags & set(one["applicationTags"].split(","))
            and (not states or one["state"] in states)
        ]
        return {"app": found} if found else None


class ResourceManager:
    """
    One ResourceManager.

    :param standby: How it answers as a standby: ``redirect`` (Hadoop 3), ``text`` (Hadoop 2); empty
        for the active one.
    :param wants_kerberos: It answers nobody without a Kerberos header.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.standby = cluster, ""
        self.wants_kerberos = False
        self.asked: list[str] = []
        self._server = JsonServer(self._answer)
        self.url = f"http://{self._server.address}"

    def close(self) -> None:
        self._server.close()

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = urlsplit(path)
        below = re.sub(r"^/ws/v1/cluster", "", parts.path)
        self.asked.append(f"{method} {below}")
        if self.wants_kerberos and self._server.header("Authorization") != "Negotiate ticket":
            return 401, b"<html>Authentication required</html>"
        if below == "/info":
            info = {
                "id": STARTED,
                "startedOn": self.cluster.active_since,
                "state": "STARTED",
                "haState": "STANDBY" if self.standby else "ACTIVE",
                "rmStateStoreName": self.cluster.store,
            }
            return 200, {"clusterInfo": info}
        if self.standby:
            text = f"This is standby RM. The redirect url is: {path}\n".encode()
            return (307 if self.standby == "redirect" else 200), text
        return self.cluster.answer(method, below, parse_qs(parts.query))
