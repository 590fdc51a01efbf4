"""
Drivers as pods, submitted by ``spark-submit`` in cluster mode without waiting.

A pod's name carries its stream, its epoch and the start of the epoch's token, so that the API server
itself refuses a second driver of an epoch (409). Labels carry the same for selectors.

Beside the pod lies a Secret of the same name. It holds what nobody may read: the secret part of the
configuration and the stream's environment; and what the driver needs of this package, so that the
image needs nothing but Spark and Python. The pod owns it, so it is deleted with the pod.

What a pod proves (Kubernetes 1.20 and newer):

- No pod with the token: the driver is gone. An object is deleted once its kubelet has confirmed that
  the containers have ended, or by force, with which an administrator vouches for it.
- A terminal phase: gone, when no container of it is still said to run. The control plane gives pods
  of a deleted node a terminal phase without having asked the node.
- A node that does not report: nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import logging
import os
import re
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import LaunchError, SpecError
from airflow_streaming.launch.environment import (
    delete_secret,
    open_private_log,
    properties_text,
    secret_files,
    sweep_secrets,
    write_private,
)
from airflow_streaming.launch.kubernetes_api import (
    Credentials,
    Namespace,
    Place,
    log_in,
    trouble,
)
from airflow_streaming.launch.port import ClusterApplication, DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.launch.rest import Answer, Unreachable
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch
from airflow_streaming.model.spark.conf import PRIVATE_CONF_FILE

log: Final = logging.getLogger(__name__)
KIND: Final = "kubernetes"
MOUNT: Final = "/opt/airflow-streaming"
"""Where the Secret lies in the driver's container."""
LABEL: Final = "airflow-streaming"
MANAGED: Final = f"{LABEL}/managed=true"
SUBMIT_PATIENCE: Final = 170.0
"""Seconds for one ``spark-submit``; it takes 8 to 14. Less than other tasks wait for an epoch whose
driver is being submitted."""
KILL_PATIENCE: Final = 10.0
_POLL: Final = 0.5
_TABLE_AGE: Final = 4.0
"""Seconds for which a list of all pods answers for each of them."""
_KILL_GRACE: Final = 1
"""Seconds. Zero would delete the object without waiting for the kubelet, and prove nothing."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_MAX_SECRET: Final = 2**20
_LOG_LINES: Final = 2000


def label_value(text: str) -> str:
    """Return a text as a label's value: at most 63 characters, different for different texts."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return f"{text[:50].rstrip('._-')}-{_digest(text)}"


def pod_name(epoch: Epoch) -> str:
    """Return the name of an epoch's driver pod; only that epoch has it."""
    plain = re.sub(r"[^a-z0-9]+", "-", epoch.stream.lower()).strip("-")
    # Names of streams tell upper from lower case, names of pods do not; the token does.
    return f"{plain[:32].strip('-') or 's'}-e{epoch.number}-{epoch.token[:8].lower()}"


def labels_of(epoch: Epoch) -> dict[str, str]:
    """Return the labels of an epoch's driver pod and of its executors."""
    return {
        f"{LABEL}/managed": "true",
        f"{LABEL}/stream": label_value(epoch.stream),
        f"{LABEL}/deployment": str(epoch.deployment),
        f"{LABEL}/epoch": str(epoch.number),
        f"{LABEL}/token": label_value(epoch.token),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def judge_pod(pod: Mapping[str, Any] | None) -> Process:
    """
    Say what a pod proves of its driver.

    :param pod: As the API server gives it; ``None`` when it has none.
    """
    if pod is None:
        return Process.gone("the API server has no pod with the driver's token")
    status, metadata = _mapping(pod, "status"), _mapping(pod, "metadata")
    phase, name = status.get("phase"), metadata.get("name")
    told = f"pod {name} is {phase}{_why(status)}"
    if status.get("reason") == "NodeLost" or phase == "Unknown":
        return Process.unseen(
            f"{told}; its node does not report. Once the node is known to be off, delete the pod with "
            f"its uid {metadata.get('uid')} as precondition"
        )
    if phase in ("Succeeded", "Failed"):
        if any(_is_running(container) for container in _containers(status)):
            return Process.unseen(
                f"{told}, and its node {_mapping(pod, 'spec').get('nodeName')} never said that the "
                "container has ended"
            )
        return Process.gone(told)
    if phase in ("Pending", "Running"):
        if metadata.get("deletionTimestamp"):
            told = f"{told} and is being deleted"
        return Process(state=ProcessState.RUNNING, detail=told)
    return Process.unseen(told)


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = status.get("containerStatuses")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_running(container: Mapping[str, Any]) -> bool:
    return "running" in _mapping(container, "state")


def _why(status: Mapping[str, Any]) -> str:
    """Return the cluster's own words on why a pod waits or ended."""
    states = [_mapping(container, "state") for container in _containers(status)]
    found = [_mapping(state, kind) for state in states for kind in ("waiting", "terminated")]
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        if isinstance(condition, dict) and condition.get("reason") == "Unschedulable":
            found.append(condition)
    parts = [str(one.get(key)) for one in (status, *found) for key in ("reason", "message")]
    words = ": ".join(part for part in parts if part != "None")
    return f" ({words[:500]})" if words else ""


def secret_of(epoch: Epoch, application: ClusterApplication) -> dict[str, Any]:
    """
    Return the Secret that goes with an epoch's driver.

    :raises SpecError: it is larger than the 1 MiB that Kubernetes takes.
    """
    data = {
        "main.py": Path(application.main).read_bytes(),
        "airflow_streaming.zip": _deflated(Path(application.archive)),
        "conf.json": json.dumps(dict(application.secret_conf)).encode(),
        **{f"env.{key}": value.encode() for key, value in application.environment.items()},
    }
    size = sum(map(len, data.values()))
    if size > _MAX_SECRET:
        raise SpecError(
            f"The Secret of stream {epoch.stream!r} would have {size} bytes, and Kubernetes takes "
            f"{_MAX_SECRET}. Shorten the values of env and of secret configuration."
        )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": pod_name(epoch), "labels": labels_of(epoch)},
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _deflated(archive: Path) -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(archive) as source,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return buffer.getvalue()


def submit_conf(epoch: Epoch, application: ClusterApplication, place: Place) -> dict[str, str]:
    """Return the configuration of a submission; it is readable in a config map, so no secret is in it."""
    name = pod_name(epoch)
    conf = {
        **application.conf,
        "spark.app.name": epoch.stream,
        "spark.kubernetes.namespace": place.namespace,
        "spark.kubernetes.driver.pod.name": name,
        # Executors' pods and the driver's service are named after it.
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        f"spark.kubernetes.driver.secrets.{name}": MOUNT,
        f"spark.kubernetes.driverEnv.{PRIVATE_CONF_FILE}": f"{MOUNT}/conf.json",
    }
    if application.image:
        conf["spark.kubernetes.container.image"] = application.image
    for key in application.environment:
        conf[f"spark.kubernetes.driver.secretKeyRef.{key}"] = f"{name}:env.{key}"
    for key, value in labels_of(epoch).items():
        conf[f"spark.kubernetes.driver.label.{key}"] = value
    return conf


def submit_command(
    spark_submit: str, epoch: Epoch, application: ClusterApplication, properties: Path
) -> tuple[str, ...]:
    """Return the command that submits an epoch's driver."""
    options = [
        *("--master", application.master, "--deploy-mode", "cluster", "--name", epoch.stream),
        *("--properties-file", str(properties)),
        *_option("--py-files", (f"local://{MOUNT}/airflow_streaming.zip", *application.py_files)),
        *_option("--jars", application.jars),
        *_option("--packages", application.packages),
        *_option("--files", application.files),
    ]
    return (spark_submit, *options, f"local://{MOUNT}/main.py", *application.arguments)


def _option(option: str, entries: tuple[str, ...]) -> tuple[str, ...]:
    return (option, ",".join(entries)) if entries else ()


class PodTable:
    """
    All our pods of one namespace, listed once for all streams that ask within some seconds.

    It only ever says that a pod is there: one that is absent may be younger than the list.
    """

    def __init__(self, namespace: Namespace, clock: Callable[[], float]) -> None:
        self._namespace, self._clock = namespace, clock
        self._lock = threading.Lock()
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._read_at = float("-inf")
        self._gone: set[str] = set()

    def forget(self, token: str) -> None:
        """Take a pod that is proved gone for absent, whatever a list that lags says."""
        with self._lock:
            self._gone.add(token)

    def pod(self, token: str) -> Mapping[str, Any] | None:
        """
        Return the pod of a token, if the list has it.

        :raises Unreachable: the list could not be had.
        """
        with self._lock:
            if token in self._gone:
                return None
            if self._clock() - self._read_at > _TABLE_AGE:
                pods = self._namespace.pods(f"{MANAGED},spark-role=driver", may_be_stale=True)
                self._pods = {_token_of(pod): pod for pod in pods}
                self._read_at = self._clock()
            return self._pods.get(label_value(token))


def _token_of(pod: Mapping[str, Any]) -> str:
    return str(_mapping(_mapping(pod, "metadata"), "labels").get(f"{LABEL}/token"))


class KubernetesLauncher:
    """
    Starts drivers as pods.

    :param place: Where new drivers are started, as ``Place`` writes it; one that was launched is
        asked for where its epoch says.
    :param login: Returns the credentials for a place.
    :param run: Runs ``spark-submit`` and returns its exit code.
    :param folder: Where files of submissions lie, by stream; ``None`` where it is not known.
    """

    kind = KIND

    def __init__(
        self,
        place: str = "",
        *,
        login: Callable[[Place], Credentials] = log_in,
        run: Callable[[LaunchRequest, tuple[str, ...], Mapping[str, str]], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        folder: Path | None = None,
    ) -> None:
        self._folder = folder
        self._place, self._login, self._run = place, login, run or _run
        self._clock = clock
        self._tables: dict[str, PodTable] = {}

    def host(self) -> Host:
        return Host(name=str(Place.parse(self._place)))

    def launch(self, request: LaunchRequest) -> Launch:
        epoch, application = request.epoch, request.application
        if application is None or not request.command:
            raise LaunchError(
                f"Stream {epoch.stream!r} was not submitted: the request holds no application for a "
                "cluster, or no spark-submit to submit it with."
            )
        place = Place.parse(epoch.host.name)
        namespace = Namespace(place, self._login)
        try:
            self._create_secret(namespace, epoch, application)
        except Unreachable as err:
            raise LaunchError(f"Stream {epoch.stream!r} was not submitted: {err}.") from err
        code = self._submit(request, application, place)
        try:
            pod = self._pod(epoch)
        except Unreachable as err:
            # It may well be there, so this is no failed launch.
            log.warning(
                "Whether spark-submit (exit code %d) made a pod is not known: %s", code, err
            )
            return _launched(epoch, {})
        if pod is None:
            self.clean_up(epoch)
            raise LaunchError(
                f"spark-submit ended with {code} and created no pod for stream {epoch.stream!r}; its "
                f"output is in {request.log}."
            )
        self._hand_to_pod(namespace, epoch, pod)
        return _launched(epoch, pod)

    def find(self, epoch: Epoch) -> Launch | None:
        try:
            pod = self._pod(epoch)
        except (Unreachable, SpecError):
            return None
        if pod is None or judge_pod(pod).state is ProcessState.GONE:
            return None
        return _launched(epoch, pod)

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        try:
            listed = self._table(epoch).pod(epoch.token)
            if listed is not None and (seen := judge_pod(listed)).state is ProcessState.RUNNING:
                return seen
            # A proof is asked for after the question, and of the store itself.
            return self._judged(epoch, self._pod(epoch))
        except (Unreachable, SpecError) as err:
            return Process.unseen(str(err))

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        deadline = self._clock() + KILL_PATIENCE
        while True:
            try:
                pod = self._pod(epoch)
                seen = self._judged(epoch, pod)
                if pod is None or seen.state is ProcessState.GONE or self._clock() >= deadline:
                    return seen
                self._delete(epoch, pod)
            except (Unreachable, SpecError) as err:
                return Process.unseen(str(err))
            time.sleep(_POLL)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        if self._folder is not None:
            for file in secret_files(self._folder / epoch.stream, epoch):
                delete_secret(file)
        with contextlib.suppress(Unreachable, SpecError):
            self._namespace(epoch).ask("DELETE", f"secrets/{pod_name(epoch)}")

    def logs(self, epoch: Epoch, launch: Launch, file: Path, most: int) -> DriverLog:
        try:
            place = Place.parse(epoch.host.name)
            shown = f"kubectl logs -n {place.namespace} {pod_name(epoch)}"
            path = f"pods/{pod_name(epoch)}/log?tailLines={_LOG_LINES}"
            answer = Namespace(place, self._login).ask("GET", path)
        except (Unreachable, SpecError) as err:
            return DriverLog(place=f"pod {pod_name(epoch)}", trouble=str(err))
        if not answer.is_success:
            return DriverLog(place=shown, trouble=trouble(answer))
        return DriverLog(place=shown, tail=answer.raw[-most:])

    def _judged(self, epoch: Epoch, pod: Mapping[str, Any] | None) -> Process:
        seen = judge_pod(pod)
        if seen.state is ProcessState.GONE:
            self._table(epoch).forget(epoch.token)
        return seen

    def _namespace(self, epoch: Epoch) -> Namespace:
        return Namespace(Place.parse(epoch.host.name), self._login)

    def _table(self, epoch: Epoch) -> PodTable:
        name = epoch.host.name
        if name not in self._tables:
            self._tables[name] = _shared_table(self._namespace(epoch), self._login, self._clock)
        return self._tables[name]

    def _pod(self, epoch: Epoch) -> Mapping[str, Any] | None:
        """Return the newest pod of the epoch that is not proved gone, else the newest one."""
        selector = f"{LABEL}/token={label_value(epoch.token)},spark-role=driver"
        pods = self._namespace(epoch).pods(selector)
        alive = [pod for pod in pods if judge_pod(pod).state is not ProcessState.GONE]
        return next(iter(alive or pods), None)

    def _create_secret(
        self, namespace: Namespace, epoch: Epoch, application: ClusterApplication
    ) -> None:
        answer = namespace.ask("POST", "secrets", secret_of(epoch, application))
        # One of an earlier try of the same epoch has the same content.
        if not answer.is_success and answer.status != _CONFLICT:
            raise LaunchError(
                f"The Secret of stream {epoch.stream!r} could not be created in {namespace.place}: "
                f"{trouble(answer)}. Give the connection's user the Role of docs/launchers.md."
            )

    def _submit(self, request: LaunchRequest, application: ClusterApplication, place: Place) -> int:
        folder = request.log.parent
        *_, properties, config = secret_files(folder, request.epoch)
        # Whoever was killed in the middle of an earlier submission has left a login here.
        sweep_secrets(folder, request.epoch.number)
        try:
            conf = submit_conf(request.epoch, application, place)
            write_private(properties, properties_text(conf))
            write_private(config, self._login(place).kubeconfig())
            command = submit_command(request.command[0], request.epoch, application, properties)
            return self._run(request, command, {"KUBECONFIG": str(config)})
        finally:
            for file in (properties, config):
                delete_secret(file)

    def _hand_to_pod(self, namespace: Namespace, epoch: Epoch, pod: Mapping[str, Any]) -> None:
        metadata = _mapping(pod, "metadata")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata.get("name"),
            "uid": metadata.get("uid"),
        }
        try:
            answer: Answer | None = namespace.ask(
                "PATCH",
                f"secrets/{pod_name(epoch)}",
                {"metadata": {"ownerReferences": [owner]}},
                content="application/merge-patch+json",
            )
        except Unreachable as err:
            log.warning("Secret %s has no owner yet: %s", pod_name(epoch), err)
            return
        if answer is not None and not answer.is_success:
            log.warning("Secret %s has no owner: %s", pod_name(epoch), trouble(answer))

    def _delete(self, epoch: Epoch, pod: Mapping[str, Any]) -> None:
        metadata = _mapping(pod, "metadata")
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") == 1:
            return
        answer = self._namespace(epoch).ask(
            "DELETE",
            f"pods/{metadata.get('name')}",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "gracePeriodSeconds": _KILL_GRACE,
                "preconditions": {"uid": metadata.get("uid")},
            },
        )
        if not answer.is_success and answer.status not in (_NOT_FOUND, _CONFLICT):
            raise Unreachable(f"pod {metadata.get('name')} cannot be deleted: {trouble(answer)}")


_SHARED: Final[dict[tuple[str, Callable[[Place], Credentials]], PodTable]] = {}
_SHARED_LOCK: Final = threading.Lock()


def _shared_table(
    namespace: Namespace, login: Callable[[Place], Credentials], clock: Callable[[], float]
) -> PodTable:
    # Each stream of a triggerer has a launcher of its own; the list is one for all of them.
    with _SHARED_LOCK:
        key = (str(namespace.place), login)
        if key not in _SHARED:
            _SHARED[key] = PodTable(namespace, clock)
        return _SHARED[key]


def _launched(epoch: Epoch, pod: Mapping[str, Any]) -> Launch:
    name, uid = pod_name(epoch), _mapping(pod, "metadata").get("uid")
    place = Place.parse(epoch.host.name)
    return Launch(
        epoch=epoch.number,
        token=epoch.token,
        host=epoch.host,
        launched_at=datetime.now(UTC),
        handle={"pod": name, **({"uid": str(uid)} if uid else {})},
        driver=f"pod {place.namespace}/{name}",
        log=f"kubectl logs -n {place.namespace} {name}",
    )


def _run(request: LaunchRequest, command: tuple[str, ...], extra: Mapping[str, str]) -> int:
    output = open_private_log(request.log)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**request.environment, **extra},
            cwd=request.log.parent,
            timeout=SUBMIT_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1
    except (OSError, ValueError) as err:
        raise LaunchError(
            f"spark-submit for stream {request.epoch.stream!r} could not be run with {command[0]}: "
            f"{getattr(err, 'strerror', None) or err}. Check the stream's runtime."
        ) from err
    finally:
        os.close(output)
    return done.returncode
