"""
A real Kubernetes API server on the loopback address, and the kubelet that the tests play.

The server lies beside the repository. It has no kubelet: ``Kubelet`` binds pods, runs what their
containers would run as local processes, and writes their status. It confirms the end of a pod that
was deleted, as a kubelet does, by deleting it with no grace once its processes are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.launch.clusters import kubernetes
from airflow_streaming.launch.clusters.kubernetes_api import Credentials, Namespace, Place
from airflow_streaming.launch.clusters.rest import Unreachable, ask
from airflow_streaming.launch.clusters.shared_table import SharedTables
from tests.conftest import REPOSITORY
from tests.integration.home.servers import free_ports
from tests.patience import PATIENCE

START: Final = Path(
    os.environ.get("AIRFLOW_STREAMING_TEST_KUBERNETES")
    or REPOSITORY.parent / "shared" / "kubernetes" / "start"
)
"""Program that starts an API server in a folder."""
NAMESPACE: Final = "streams"
RIGHTS: Final = REPOSITORY / "docs" / "kubernetes-role.yaml"


@dataclass(frozen=True, kw_only=True)
class ApiServer:
    """
    :param server: Its address, with TLS.
    :param front: A plain front that adds what Spark's client needs of so old a server.
    """

    server: str
    front: str
    authority: str
    tokens: Mapping[str, str]
    pids: Mapping[str, int]

    def place(self, *, by_front: bool = False) -> Place:
        return Place(server=self.front if by_front else self.server, namespace=NAMESPACE)

    def credentials(self, user: str, *, by_front: bool = False) -> Credentials:
        server = self.front if by_front else self.server
        return Credentials(
            server=server, token=self.tokens[user], authority=Path(self.authority).read_text()
        )

    def namespace(self, user: str = "admin") -> Namespace:
        return Namespace(self.place(), lambda _: self.credentials(user))

    def apply(self, path: str, body: Mapping[str, Any]) -> None:
        """Create something as the administrator."""
        credentials = self.credentials("admin")
        answer = ask(
            f"{self.server}/{path}",
            method="POST",
            body=body,
            headers={"Authorization": f"Bearer {credentials.token}"},
            context=credentials.context(),
        )
        assert answer.is_success, answer

    def suspend(self) -> None:
        os.kill(self.pids["apiserver"], signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pids["apiserver"], signal.SIGCONT)


@contextlib.contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Run an API server with a namespace and the documented Role until the end of the block."""
    if not START.exists():
        pytest.skip("There is no ../shared/kubernetes/start, so no API server can be had.")
    (port,) = free_ports(1)
    done = subprocess.run(
        [sys.executable, str(START), str(folder / "kubernetes"), "--port", str(port)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    server = ApiServer(
        server=told["server"],
        front=told["front"],
        authority=told["ca"],
        tokens=told["tokens"],
        pids=told["pids"],
    )
    try:
        server.apply("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for path, body in documented_rights():
            server.apply(path, body)
        yield server
    finally:
        for name in ("front", "apiserver", "etcd"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.pids[name], signal.SIGCONT)
                os.kill(server.pids[name], signal.SIGKILL)


def documented_rights() -> list[tuple[str, dict[str, Any]]]:
    """Return the Role and its binding as the documentation gives them, for the user ``airflow``."""
    import yaml

    role, binding = yaml.safe_load_all(RIGHTS.read_text())
    binding["subjects"] = [{"kind": "User", "name": "airflow"}]
    root = f"apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    for body in (role, binding):
        body["metadata"]["namespace"] = NAMESPACE
    return [(f"{root}/roles", role), (f"{root}/rolebindings", binding)]


def forget_lists(patch: pytest.MonkeyPatch) -> None:
    """Let launchers ask anew: time goes by for the lists that they share."""
    for name in ("_STATUSES", "_PENDING"):
        patch.setattr(kubernetes, name, SharedTables())


class NotReady(Exception):
    """A volume of a pod does not exist yet; a kubelet waits for it."""


Command = Callable[[Mapping[str, Any]], subprocess.Popen[bytes]]
"""
Runs what the container of a pod would run, as leader of a session of its own; raises ``NotReady``.
"""


class Kubelet:
    """
    Plays the kubelet of one node.

    :param command: Runs the pods' containers.
    :param is_lost: It neither reports nor confirms anything, and its processes run on.
    """

    def __init__(self, server: ApiServer, command: Command) -> None:
        self._namespace, self._command = server.namespace(), command
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ran: list[str] = []
        self.most_drivers = 0
        """The most drivers whose processes lived at once; looked at after each start of one."""
        self._drivers: list[subprocess.Popen[bytes]] = []
        self.is_lost = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(PATIENCE)
        for uid in list(self.processes):
            self._end(uid)

    def kill(self, name: str) -> None:
        """Kill the container of a pod, as the kernel does when memory runs out."""
        for pod in self._namespace.pods(""):
            if pod["metadata"]["name"] == name:
                self._end(pod["metadata"]["uid"])

    def _work(self) -> None:
        while not self._closing.wait(0.2):
            if self.is_lost:
                continue
            with contextlib.suppress(Unreachable):
                for pod in self._namespace.pods(""):
                    with contextlib.suppress(NotReady):
                        self._tend(pod)

    def _tend(self, pod: Mapping[str, Any]) -> None:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        process = self.processes.get(uid)
        if metadata.get("deletionTimestamp"):
            self._end(uid)
            self._namespace.ask(
                "DELETE",
                f"pods/{metadata['name']}",
                {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}},
            )
        elif not pod["spec"].get("nodeName"):
            target = {"target": {"kind": "Node", "name": "node-1"}}
            self._namespace.ask(
                "POST",
                f"pods/{metadata['name']}/binding",
                {"metadata": {"name": metadata["name"]}, **target},
            )
        elif process is None and pod["status"]["phase"] == "Pending":
            self.processes[uid] = self._command(pod)
            self._count(pod, self.processes[uid])
            self.ran.append(metadata["name"])
            self._report(pod, "Running", {"running": {}})
        elif process is not None and pod["status"]["phase"] == "Running":
            code = process.poll()
            if code is not None:
                self._end(uid)
                ended = {"terminated": {"exitCode": code if code >= 0 else 128 - code}}
                self._report(pod, "Failed" if code else "Succeeded", ended)

    def _count(self, pod: Mapping[str, Any], process: subprocess.Popen[bytes]) -> None:
        if pod["metadata"].get("labels", {}).get("spark-role") == "driver":
            self._drivers.append(process)
            self.most_drivers = max(
                self.most_drivers, sum(one.poll() is None for one in self._drivers)
            )

    def _report(self, pod: Mapping[str, Any], phase: str, state: Mapping[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        status = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container.get("image", ""),
                    "imageID": "",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        self._namespace.ask(
            "PATCH",
            f"pods/{pod['metadata']['name']}/status",
            {"status": status},
            content="application/merge-patch+json",
        )

    def _end(self, uid: str) -> None:
        # All processes of a container end together.
        process = self.processes.get(uid)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
