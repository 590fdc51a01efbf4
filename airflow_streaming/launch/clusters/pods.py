"""
Driver pods: names, labels, Secret and configuration, and the proof of a driver's state.

Proofs by pods (Kubernetes 1.20 and newer):

- No pod with the epoch's mark: the driver is gone. An object is deleted once its kubelet has
  confirmed that the containers have ended, or by force, with which an administrator vouches for it.
- A terminal phase: gone, unless a container of it is still reported as running. The control plane
  gives pods of a deleted node a terminal phase without having asked the node.
- A node that does not report: no proof.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.launch.clusters.kubernetes_api import Place
from airflow_streaming.launch.port import ClusterApplication
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch
from airflow_streaming.model.spark.conf import PRIVATE_CONF_FILE
from airflow_streaming.model.spark.launchers import APACHE_OPERATOR, KUBEFLOW_OPERATOR

MOUNT: Final = "/opt/airflow-streaming"
"""Mount path of the Secret in the driver's container."""
LABEL: Final = "airflow-streaming"
MANAGED: Final = f"{LABEL}/managed=true"
TOKEN_LABEL: Final = f"{LABEL}/token"
"""Label with the epoch's mark, by which its driver is found."""
RESOURCE: Final = "SparkApplication"
"""Kind of the resources of Spark operators, which own the pods that are made for them."""
OPERATED: Final = (APACHE_OPERATOR, KUBEFLOW_OPERATOR)
"""Launchers whose pods an operator makes."""
CLOCKS: Final = timedelta(minutes=10)
"""By how much the clocks of the API server and of a worker may differ."""
_MAX_SECRET: Final = 2**20


def label_value(text: str) -> str:
    """Return a text as a label's value: at most 63 characters, different for different texts."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return f"{text[:50].rstrip('._-')}-{_digest(text)}"


def pod_name(epoch: Epoch) -> str:
    """Return the name of an epoch's driver pod; only that epoch has it."""
    plain = re.sub(r"[^a-z0-9]+", "-", epoch.stream.lower()).strip("-")
    # Names of streams tell upper from lower case, names of pods do not; the mark does.
    return f"{plain[:32].strip('-') or 's'}-e{epoch.number}-{epoch.mark[:8]}"


def labels_of(epoch: Epoch) -> dict[str, str]:
    """Return the labels of an epoch's driver pod and of its executors."""
    return {
        f"{LABEL}/managed": "true",
        f"{LABEL}/stream": label_value(epoch.stream),
        f"{LABEL}/deployment": str(epoch.deployment),
        f"{LABEL}/epoch": str(epoch.number),
        TOKEN_LABEL: epoch.mark,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def judge_pod(pod: Mapping[str, Any] | None) -> Process:
    """
    Return the state of a driver that its pod proves.

    :param pod: As the API server returns it; ``None`` if it does not exist.
    """
    if pod is None:
        return Process.gone("the API server has no pod with the driver's token")
    status, metadata = mapping(pod, "status"), mapping(pod, "metadata")
    phase, name = status.get("phase"), metadata.get("name")
    message = f"pod {name} is {phase}{_why(status)}"
    if status.get("reason") == "NodeLost" or phase == "Unknown":
        return Process.unseen(
            f"{message}; its node does not report. Once the node is known to be off, delete the pod with "
            f"its uid {metadata.get('uid')} as precondition"
        )
    if phase in ("Succeeded", "Failed"):
        if any(_is_running(container) for container in _containers(status)):
            return Process.unseen(
                f"{message}, and its node {mapping(pod, 'spec').get('nodeName')} never said that the "
                "container has ended"
            )
        return Process.gone(message)
    if phase in ("Pending", "Running"):
        if metadata.get("deletionTimestamp"):
            message = f"{message} and is being deleted"
        return Process(state=ProcessState.RUNNING, detail=message)
    return Process.unseen(message)


def is_drivers(found: Mapping[str, Any], epoch: Epoch, launch: Launch | None) -> bool:
    """
    Tell whether a pod or resource is the driver's own, and not another creator's with its labels.

    ``spark-submit`` and the resource of an operator have the epoch's name. A name is free again once its
    object was deleted, a uid never is. An operator's pod belongs to a resource. An object of another uid
    than the recorded one is another creator's where it was created after the launch was recorded; where
    it was created before, the record is damaged.
    """
    metadata = mapping(found, "metadata")
    is_operated = epoch.launcher in OPERATED and found.get("kind") != RESOURCE
    if not is_operated and metadata.get("name") not in (None, pod_name(epoch)):
        return False
    handle = {} if launch is None else launch.handle
    recorded = handle.get("resource" if epoch.launcher in OPERATED else "uid")
    uids = _owners(metadata) if is_operated else {metadata.get("uid")}
    if launch is None or not recorded or not uids or recorded in uids:
        return True
    created = _time(metadata.get("creationTimestamp"))
    return created is None or created < launch.launched_at + CLOCKS


def _owners(metadata: Mapping[str, Any]) -> set[object]:
    owners = metadata.get("ownerReferences")
    listed = [one for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    return {str(one.get("uid")) for one in listed if one.get("kind") == RESOURCE}


def _time(text: object) -> datetime | None:
    try:
        return parse_time(text, "creationTimestamp") if isinstance(text, str) else None
    except RecordError:
        return None


def mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of an answer; empty when it is absent or none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = status.get("containerStatuses")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_running(container: Mapping[str, Any]) -> bool:
    return "running" in mapping(container, "state")


def _why(status: Mapping[str, Any]) -> str:
    """Return the cluster's own words on why a pod waits or ended."""
    states = [mapping(container, "state") for container in _containers(status)]
    found = [mapping(state, kind) for state in states for kind in ("waiting", "terminated")]
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
