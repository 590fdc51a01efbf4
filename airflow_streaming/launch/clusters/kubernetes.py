"""
Drivers as pods, submitted by ``spark-submit`` in cluster mode without waiting.

A pod's name carries its stream, its epoch and the start of the epoch's token, so that the API
server itself refuses a second driver of an epoch (409). Labels carry the same for selectors.

A Secret of the same name holds data that no other user may read: the secret part of the
configuration and the stream's environment. It also holds the driver's part of this package, so that
the image needs only Spark and Python. The pod owns it, so it is deleted with the pod.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import LaunchError, SpecError, closed
from airflow_streaming.launch.clusters.kubernetes_api import (
    Credentials,
    Namespace,
    Place,
    is_absent,
    log_in,
    trouble,
)
from airflow_streaming.launch.clusters.pods import (
    MANAGED,
    MOUNT,
    RESOURCE,
    TOKEN_LABEL,
    is_drivers,
    judge_pod,
    mapping,
    pod_name,
    secret_of,
    submit_conf,
)
from airflow_streaming.launch.clusters.rest import Answer, Unreachable
from airflow_streaming.launch.clusters.shared_table import SharedTable, SharedTables
from airflow_streaming.launch.clusters.submitting import Submit, run_submit
from airflow_streaming.launch.environment import (
    delete_secret,
    properties_text,
    secret_files,
    sweep_secrets,
    write_private,
)
from airflow_streaming.launch.port import ClusterApplication, DriverLog, Heartbeat, LaunchRequest
from airflow_streaming.model.observation import Process, ProcessState
from airflow_streaming.model.records.epoch import Epoch, Host, Launch

log: Final = logging.getLogger(__name__)
KIND: Final = "kubernetes"
KILL_PATIENCE: Final = 10.0
_POLL: Final = 0.5
IDENTITY_AGE: Final = 300.0
"""Seconds for which a list of the drivers' uids answers: for so long another creator's pod with the name
and the labels of a driver that is gone may count as running."""
_KILL_GRACE: Final = 1
"""Seconds. Zero would delete the object without waiting for the kubelet, and prove nothing."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_LOG_LINES: Final = 2000

_STATUSES: Final[SharedTables[str]] = SharedTables()
_IDENTITIES: Final[SharedTables[Mapping[str, Any]]] = SharedTables()
_PENDING: Final[SharedTables[Mapping[str, Any]]] = SharedTables()
_DRIVERS: Final = f"{MANAGED},spark-role=driver"
_RUNNING: Final = "Running"


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


class KubernetesLauncher:
    """
    Starts drivers as pods.

    :param place: Where new drivers are started, as ``Place`` writes it; an existing driver is
        looked up where its epoch says.
    :param login: Returns the credentials for a place.
    :param run: Runs ``spark-submit`` and returns its exit code.
    :param folder: Folder of submission files, by stream; ``None`` if not known.
    """

    kind = KIND

    def __init__(
        self,
        place: str = "",
        *,
        login: Callable[[Place], Credentials] = log_in,
        run: Submit = run_submit,
        clock: Callable[[], float] = time.monotonic,
        folder: Path | None = None,
    ) -> None:
        self._folder = folder
        self._place, self._login, self._run = place, login, run
        self._clock = clock

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
            raise LaunchError(f"Stream {epoch.stream!r} was not submitted: {closed(err)}") from err
        code = self._submit(request, application, place)
        try:
            pod = self._pod(epoch, None)
        except Unreachable as err:
            # The pod may exist, so this does not count as a failed launch.
            log.warning(
                "Whether spark-submit (exit code %d) made a pod is not known: %s", code, err
            )
            return launched(epoch, {})
        if pod is None:
            self.clean_up(epoch)
            raise LaunchError(
                f"spark-submit ended with {code} and created no pod for stream {epoch.stream!r}; its "
                f"output is in {request.log}."
            )
        self._hand_to(namespace, epoch, pod)
        return launched(epoch, pod)

    def find(self, epoch: Epoch) -> Launch | None:
        try:
            pod = self._pod(epoch, None)
        except (Unreachable, SpecError):
            return None
        if pod is None or judge_pod(pod).state is ProcessState.GONE:
            return None
        return launched(epoch, pod)

    def probe(
        self, epoch: Epoch, launch: Launch | None, /, heartbeat: Heartbeat | None = None
    ) -> Process:
        try:
            listed = self._listed(epoch, launch)
            if listed is not None and listed.state is ProcessState.RUNNING:
                return listed
            # A proof needs a read after the question, from the store itself.
            return self._look(epoch, launch)
        except (Unreachable, SpecError) as err:
            return Process.unseen(str(err))

    def kill(
        self, epoch: Epoch, launch: Launch | None, heartbeat: Heartbeat | None = None
    ) -> Process:
        deadline = self._clock() + KILL_PATIENCE
        try:
            self._delete_secret(epoch)
        except (Unreachable, SpecError) as err:
            return Process.unseen(str(err))
        while True:
            try:
                seen = self._look(epoch, launch)
                if seen.state is ProcessState.GONE or self._clock() >= deadline:
                    return seen
                self._delete_all(epoch, launch)
            except (Unreachable, SpecError) as err:
                return Process.unseen(str(err))
            time.sleep(_POLL)

    def clean_up(self, epoch: Epoch, launch: Launch | None = None) -> None:
        if self._folder is not None:
            for file in secret_files(self._folder / epoch.stream, epoch):
                delete_secret(file)
        with contextlib.suppress(Unreachable, SpecError):
            self._delete_secret(epoch)

    def logs(self, epoch: Epoch, launch: Launch, file: Path | None, most: int) -> DriverLog:
        try:
            place = Place.parse(epoch.host.name)
            text = f"kubectl logs -n {place.namespace} {pod_name(epoch)}"
            if self._pod(epoch, launch) is None:
                return DriverLog(place=text, trouble="the driver's pod is gone")
            path = f"pods/{pod_name(epoch)}/log?tailLines={_LOG_LINES}"
            answer = Namespace(place, self._login).ask("GET", path)
        except (Unreachable, SpecError) as err:
            return DriverLog(place=f"pod {pod_name(epoch)}", trouble=str(err))
        if not answer.is_success:
            return DriverLog(place=text, trouble=trouble(answer))
        return DriverLog(place=text, tail=answer.raw[-most:])

    def _look(self, epoch: Epoch, launch: Launch | None) -> Process:
        """Return the proven state of an epoch's driver."""
        return self._noted(epoch, judge_pod(self._pod(epoch, launch)))

    def _noted(self, epoch: Epoch, seen: Process) -> Process:
        if seen.state is ProcessState.GONE:
            for table in self._tables(epoch):
                table.forget(pod_name(epoch))
        return seen

    def _listed(self, epoch: Epoch, launch: Launch | None) -> Process | None:
        """Return the driver's state from the lists of all our drivers; ``None`` if it is in no list."""
        name, (statuses, identities, pending) = pod_name(epoch), self._tables(epoch)
        status = statuses.get(name)
        if status == _RUNNING:
            identity = identities.get(name) if launch is not None and launch.handle else {}
            if identity is None or not is_drivers(identity, epoch, launch):
                return None
            return Process(state=ProcessState.RUNNING, detail=f"pod {name} is {status}")
        waits = None if status is None else pending.get(name)
        if waits is None or not is_drivers(waits, epoch, launch):
            return None
        return judge_pod(waits)

    def _delete_all(self, epoch: Epoch, launch: Launch | None) -> None:
        pod = self._pod(epoch, launch)
        if pod is not None:
            self._delete(epoch, pod)

    def _namespace(self, epoch: Epoch) -> Namespace:
        return Namespace(Place.parse(epoch.host.name), self._login)

    def _tables(
        self, epoch: Epoch
    ) -> tuple[SharedTable[str], SharedTable[Mapping[str, Any]], SharedTable[Mapping[str, Any]]]:
        """Return the statuses and identities of all our drivers, and their waiting pods."""
        namespace, key = self._namespace(epoch), (epoch.host.name, self._login)
        return (
            _STATUSES.of(key, lambda: SharedTable(lambda: _statuses(namespace), self._clock)),
            _IDENTITIES.of(
                key,
                lambda: SharedTable(
                    lambda: namespace.identities(_DRIVERS), self._clock, IDENTITY_AGE
                ),
            ),
            _PENDING.of(key, lambda: SharedTable(lambda: _pending(namespace), self._clock)),
        )

    def _pod(self, epoch: Epoch, launch: Launch | None) -> Mapping[str, Any] | None:
        """Return the pod of the epoch's driver; pods of other creators do not count."""
        selector = f"{TOKEN_LABEL}={epoch.mark},spark-role=driver"
        found = self._namespace(epoch).pods(selector)
        pods = [pod for pod in found if is_drivers(pod, epoch, launch)]
        alive = [pod for pod in pods if judge_pod(pod).state is not ProcessState.GONE]
        return next(iter(alive or pods), None)

    def _create_secret(
        self, namespace: Namespace, epoch: Epoch, application: ClusterApplication
    ) -> None:
        answer = namespace.ask("POST", "secrets", secret_of(epoch, application))
        # A Secret of an earlier try of the same epoch has the same content.
        if not answer.is_success and answer.status != _CONFLICT:
            raise LaunchError(
                f"The Secret of stream {epoch.stream!r} could not be created in {namespace.place}: "
                f"{trouble(answer)}. Give the connection's user the Role of docs/kubernetes-role.yaml."
            )

    def _delete_secret(self, epoch: Epoch) -> None:
        """Delete an epoch's Secret: without it no pod starts that a submission under way may still make."""
        answer = self._namespace(epoch).ask("DELETE", f"secrets/{pod_name(epoch)}")
        if not answer.is_success and not is_absent(answer):
            raise Unreachable(f"Secret {pod_name(epoch)} cannot be deleted: {trouble(answer)}")

    def _submit(self, request: LaunchRequest, application: ClusterApplication, place: Place) -> int:
        folder = request.log.parent
        *_, properties, config = secret_files(folder, request.epoch)
        # A task that was killed in the middle of an earlier submission has left a login here.
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

    def _hand_to(self, namespace: Namespace, epoch: Epoch, owner: Mapping[str, Any]) -> None:
        """Have the Secret deleted with what owns it from now on."""
        reference = {
            "apiVersion": owner.get("apiVersion", "v1"),
            "kind": owner.get("kind", "Pod"),
            "name": mapping(owner, "metadata").get("name"),
            "uid": mapping(owner, "metadata").get("uid"),
        }
        try:
            answer: Answer | None = namespace.ask(
                "PATCH",
                f"secrets/{pod_name(epoch)}",
                {"metadata": {"ownerReferences": [reference]}},
                content="application/merge-patch+json",
            )
        except Unreachable as err:
            log.warning("Secret %s has no owner yet: %s", pod_name(epoch), err)
            return
        if answer is not None and not answer.is_success:
            log.warning("Secret %s has no owner: %s", pod_name(epoch), trouble(answer))

    def _delete(self, epoch: Epoch, pod: Mapping[str, Any]) -> None:
        metadata = mapping(pod, "metadata")
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


def _statuses(namespace: Namespace) -> dict[str, str]:
    return namespace.statuses(_DRIVERS)


def _pending(namespace: Namespace) -> dict[str, Mapping[str, Any]]:
    # Whole pods, as they hold the cluster's own words on why they wait.
    pods = namespace.pods(_DRIVERS, pending=True)
    return {str(mapping(pod, "metadata").get("name")): pod for pod in pods}


def launched(epoch: Epoch, pod: Mapping[str, Any]) -> Launch:
    """
    Return the record of a launch.

    :param pod: The pod, or the operator's resource; empty where it is not known whether there is one.
    """
    name, uid = pod_name(epoch), mapping(pod, "metadata").get("uid")
    key = "resource" if pod.get("kind") == RESOURCE else "uid"
    place = Place.parse(epoch.host.name)
    return Launch(
        epoch=epoch.number,
        token=epoch.token,
        host=epoch.host,
        launched_at=datetime.now(UTC),
        handle={"pod": name, **({key: str(uid)} if uid else {})},
        driver=f"pod {place.namespace}/{name}",
        log=f"kubectl logs -n {place.namespace} {name}",
    )
