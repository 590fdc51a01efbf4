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
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        pytest.skip("AIRFLOW_STREAMING_TEST_KUBERNETES names no program that starts an API server.")
    port = _first_of_free_ports(4)
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


def _first_of_free_ports(count: int) -> int:
    """Return the first of so many free ports in a row; ``START`` takes those behind the one it is given."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            for one in range(port, port + count):
                taken.enter_context(socket.create_server(("127.0.0.1", one)))
            return port


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


Command = Callable[[Mapping[str, Any]], subprocess.Popen[bytes]]
"""Runs what the container of a pod would run, as leader of a session of its own."""


class PlayedPart:
    """A part of a cluster that the tests play: a thread that looks at the API server until it is closed."""

    EVERY = 0.2
    """Seconds between two looks."""

    def __init__(self, server: ApiServer) -> None:
        self._namespace = server.namespace()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(PATIENCE)

    def look(self) -> None:
        """Look once, and do what there is to do."""
        raise NotImplementedError

    def _work(self) -> None:
        while not self._closing.wait(self.EVERY):
            with contextlib.suppress(Unreachable):
                self.look()


class Kubelet(PlayedPart):
    """
    Plays the kubelet of one node.

    :param command: Runs the pods' containers.
    :param is_lost: It neither reports nor confirms anything, and its processes run on.
    :param grace: Seconds that the containers of a deleted pod are given between SIGTERM and SIGKILL.
    """

    def __init__(self, server: ApiServer, command: Command) -> None:
        self._command = command
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ran: list[str] = []
        self.waiting: set[str] = set()
        """The pods that wait for a volume."""
        self.is_lost = False
        self.grace = 0.0
        self._asked_to_end: dict[str, float] = {}
        super().__init__(server)

    def close(self) -> None:
        super().close()
        for uid in list(self.processes):
            self._end(uid)

    def alive(self) -> set[str]:
        """Return the uids of the pods whose processes live."""
        return {uid for uid, one in list(self.processes.items()) if one.poll() is None}

    def kill(self, name: str) -> None:
        """Kill the container of a pod, as the kernel does when memory runs out."""
        for pod in self._namespace.pods(""):
            if pod["metadata"]["name"] == name:
                self._end(pod["metadata"]["uid"])

    def look(self) -> None:
        for pod in [] if self.is_lost else self._namespace.pods(""):
            self._tend(pod)

    def _tend(self, pod: Mapping[str, Any]) -> None:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        process = self.processes.get(uid)
        if metadata.get("deletionTimestamp"):
            if self._has_been_ended(uid):
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
            if not self._has_volumes(pod):
                self.waiting.add(metadata["name"])
                return
            self.processes[uid] = self._command(pod)
            self.ran.append(metadata["name"])
            self._sync(pod, self.processes[uid])
        elif process is not None and pod["status"]["phase"] in ("Pending", "Running"):
            self._sync(pod, process)

    def _sync(self, pod: Mapping[str, Any], process: subprocess.Popen[bytes]) -> None:
        """Report a container that has started or ended; a report that was lost is sent again."""
        code = process.poll()
        if code is not None:
            self._end(pod["metadata"]["uid"])
            ended = {"terminated": {"exitCode": code if code >= 0 else 128 - code}}
            self._report(pod, "Failed" if code else "Succeeded", ended)
        elif pod["status"]["phase"] == "Pending":
            self._report(pod, "Running", {"running": {}})

    def _has_volumes(self, pod: Mapping[str, Any]) -> bool:
        """Tell whether the Secrets and config maps of a pod exist; a kubelet waits for them."""
        volumes = pod["spec"].get("volumes", [])
        paths = [f"secrets/{one['secret']['secretName']}" for one in volumes if "secret" in one]
        paths += [f"configmaps/{one['configMap']['name']}" for one in volumes if "configMap" in one]
        return all(self._namespace.ask("GET", path).is_success for path in paths)

    def _has_been_ended(self, uid: str) -> bool:
        """Ask the container of a deleted pod to end, kill it after its grace, and tell whether it is gone."""
        process = self.processes.get(uid)
        if process is None or process.poll() is not None or not self.grace:
            self._end(uid)
            return True
        if uid not in self._asked_to_end:
            self._asked_to_end[uid] = time.monotonic()
            process.terminate()
        elif time.monotonic() - self._asked_to_end[uid] >= self.grace:
            self._end(uid)
            return True
        return False

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


class GarbageCollector(PlayedPart):
    """
    Plays the part of the control plane that deletes what belongs to nothing any more.

    :param owners: Kinds besides pods that own something: API group and version, and path.
    """

    EVERY = 1.0
    OWNED: Final = ("pods", "secrets", "configmaps", "services")

    def __init__(self, server: ApiServer, owners: Iterable[tuple[str, str]] = ()) -> None:
        self._owners = [("api/v1", "pods"), *owners]
        super().__init__(server)

    def look(self) -> None:
        # What is owned is listed first: an owner is there before what belongs to it.
        owned = [(kind, one) for kind in self.OWNED for one in self._list("api/v1", kind)]
        owners = {one["uid"] for api, kind in self._owners for one in self._list(api, kind)}
        for kind, one in owned:
            belongs_to = {owner["uid"] for owner in one.get("ownerReferences", [])}
            if belongs_to and not belongs_to & owners and "deletionTimestamp" not in one:
                body = {"preconditions": {"uid": one["uid"]}}
                self._namespace.ask("DELETE", f"{kind}/{one['name']}", body)

    def _list(self, api: str, kind: str) -> list[dict[str, Any]]:
        """Return the metadata of everything of a kind."""
        answer = self._namespace.ask("GET", kind, api=api, accept=_METADATA)
        if not answer.is_success:
            raise Unreachable(f"{kind} cannot be listed: {answer.status}")
        return [one["metadata"] for one in answer.body.get("items") or []]


_METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
