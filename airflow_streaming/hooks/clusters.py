"""
The launcher of a Spark connection, and the place on its cluster.

The connection selects them by its master and its deploy mode, as with ``spark-submit``. In client
mode the driver is a process of the worker's host, for any kind of executors.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.exceptions import AlreadyExists, SpecError
from airflow_streaming.launch.clusters.kubernetes_api import Credentials, Place
from airflow_streaming.launch.clusters.standalone import REST_PORT, cluster_place, rest_addresses
from airflow_streaming.launch.clusters.standalone_pages import UI_PORT
from airflow_streaming.launch.clusters.yarn_api import place_of
from airflow_streaming.launch.conf_rules import LaunchSite
from airflow_streaming.launch.environment import guarded, split_secrets
from airflow_streaming.launch.java import check_executor_options, split_options
from airflow_streaming.launch.package import DriverPackage
from airflow_streaming.launch.port import ClusterApplication
from airflow_streaming.launch.registry import ON_KUBERNETES
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.conf import PRIVATE_CONF, PRIVATE_CONF_FILE, shipped_lists
from airflow_streaming.model.spark.launchers import (
    APACHE_OPERATOR,
    KUBEFLOW_OPERATOR,
    LOCAL,
    STANDALONE,
    YARN,
)
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import join, to_hadoop

if TYPE_CHECKING:
    from airflow.sdk import Connection

_PACKAGES: Final = "_driver"
"""Folder of a home with what drivers on a cluster need of this package."""
_BY_SCHEME: Final = {"spark": (STANDALONE,), "k8s": ON_KUBERNETES, "yarn": (YARN,)}
"""Launchers of a master; the first one is taken where none is named."""
_OPERATORS: Final = {"apache": APACHE_OPERATOR, "kubeflow": KUBEFLOW_OPERATOR}

_KEPT: Final = 60.0
"""Seconds for which credentials are kept; tokens of clouds live for minutes at least."""
_known: Final[dict[str, tuple[float, Credentials]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    Where a stream's drivers are started.

    :param launcher: Name of the launcher.
    :param master: The drivers' source of executors; empty where this module does not know.
    :param cluster: The launcher's name of the place; empty for this host.
    """

    launcher: str
    master: str = ""
    cluster: str = ""

    def site(self, runtime: Runtime) -> LaunchSite:
        """Return the same for a runtime, as the rules of a stream's configuration know it."""
        is_pod = self.launcher in ON_KUBERNETES
        return LaunchSite(
            launcher=self.launcher,
            master=self.master,
            namespace=Place.parse(self.cluster).namespace if is_pod else "",
            image=runtime.image,
        )


def target_of(conn_id: str, connection: Connection | None, launcher: str = "") -> Target:
    """
    Return the target that a connection names.

    :param connection: ``None`` if missing; its absence is reported when it is used.
    :param launcher: The stream's own launcher; empty for the connection's.
    :raises SpecError: the connection's target cannot be run, or contradicts the stream's.
    """
    master = "" if connection is None else master_of(connection)
    extra: Mapping[str, Any] = {} if connection is None else connection.extra_dejson
    chosen = launcher or _chosen(conn_id, master, extra)
    if chosen not in _FIND:
        return Target(launcher=chosen, master=master)
    if chosen not in _BY_SCHEME.get(master.partition("://")[0], ()):
        raise SpecError(
            f"Launcher {chosen!r} cannot use Spark connection {conn_id!r}, whose master is {master!r}."
            " Name a connection with spark://HOST:PORT for 'standalone', yarn for 'yarn', or k8s://URL "
            "for 'kubernetes' and the operators."
        )
    if extra.get("deploy-mode") == "client":
        raise SpecError(
            f"Launcher {chosen!r} starts drivers on a cluster, and Spark connection {conn_id!r} asks for "
            "deploy mode 'client'. Set its deploy-mode to cluster, or leave the stream's launcher out to "
            "have the driver run on the worker's host."
        )
    return Target(launcher=chosen, master=master, cluster=_FIND[chosen](conn_id, master, extra))


def master_of(connection: Connection) -> str:
    """Return the master of a Spark connection, as the Spark provider's hook does."""
    host = connection.host or ""
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    master = host if is_whole else f"{connection.conn_type}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


def deploy_mode_of(conn_id: str, extra: Mapping[str, Any]) -> str:
    """
    Return the deploy mode that a Spark connection asks for: client, which it is by default, or cluster.

    :param extra: The connection's.
    :raises SpecError: it is neither; ``spark-submit`` refuses other spellings, too.
    """
    mode = extra.get("deploy-mode") or "client"
    if mode not in ("client", "cluster"):
        raise SpecError(
            f"Spark connection {conn_id!r} has the deploy-mode {mode!r:.80}. Write it as client or "
            "cluster, in small letters."
        )
    return str(mode)


def _chosen(conn_id: str, master: str, extra: Mapping[str, Any]) -> str:
    operator = extra.get("spark-operator")
    if deploy_mode_of(conn_id, extra) == "client":
        if operator is not None:
            raise SpecError(
                f"Spark connection {conn_id!r} has the spark-operator {operator!r}, and an operator starts "
                "drivers in cluster mode only. Set deploy-mode to cluster, or take spark-operator out to "
                "have the driver run on the worker's host."
            )
        return LOCAL
    known = _BY_SCHEME.get(master.partition("://")[0])
    if known is None:
        raise SpecError(
            f"Spark connection {conn_id!r} asks for cluster mode with the master {master!r}. Streams "
            "run in cluster mode on spark://, k8s:// and yarn masters. Set deploy-mode to client, or name a "
            "launcher that another package registers."
        )
    if operator is None:
        return known[0]
    if operator not in _OPERATORS:
        raise SpecError(
            f"Spark connection {conn_id!r} has the spark-operator {operator!r}. Give one of "
            f"{', '.join(_OPERATORS)}, or leave it out to have spark-submit used."
        )
    return _OPERATORS[operator]


def _standalone(conn_id: str, master: str, extra: Mapping[str, Any]) -> str:
    ports = {"rest-port": REST_PORT, "webui-port": UI_PORT}
    for field, usual in ports.items():
        ports[field] = extra.get(field, usual)
        if not re.fullmatch(r"[0-9]{1,5}", str(ports[field])):
            raise SpecError(
                f"Spark connection {conn_id!r} has the {field} {ports[field]!r}. Give a number."
            )
    hosts = (host.partition(":")[0] for host in master.removeprefix("spark://").split(","))
    cluster = cluster_place(hosts, ports["rest-port"], ports["webui-port"])
    rest_addresses(cluster)
    return cluster


def _kubernetes(conn_id: str, master: str, extra: Mapping[str, Any]) -> str:
    server = master.removeprefix("k8s://")
    if "://" not in server:
        server = f"https://{server}"
    namespace = extra.get("namespace") or "default"
    connection = extra.get("kubernetes-conn-id") or ""
    place = Place(server=server, namespace=str(namespace), connection=str(connection))
    return str(Place.parse(str(place)))


def _yarn(conn_id: str, master: str, extra: Mapping[str, Any]) -> str:
    addresses = extra.get("yarn_resourcemanager_webapp_address")
    if master != YARN or not isinstance(addresses, str) or not addresses.strip():
        raise SpecError(
            f"Spark connection {conn_id!r} asks for YARN's cluster mode and does not name the web "
            "addresses of the ResourceManagers. Give yarn as its host and, as its extra "
            "yarn_resourcemanager_webapp_address, http://rm1:8088,http://rm2:8088."
        )
    return place_of(addresses)


_FIND: Final = {
    STANDALONE: _standalone,
    YARN: _yarn,
    **dict.fromkeys(ON_KUBERNETES, _kubernetes),
}


def application_for(
    target: Target,
    deployment: Deployment,
    runtime: Runtime,
    *,
    package: DriverPackage,
    arguments: Sequence[str],
    conf: Mapping[str, str],
    environment: Mapping[str, str],
    home: str,
    store: Store,
    defaults: str = "",
) -> ClusterApplication:
    """
    Return the application for a cluster to run.

    :param home: The home's URI; where the cluster must fetch the driver's package from a place that
        its hosts can read, it is put there.
    :param store: The home's store.
    :param defaults: Text of the runtime's ``spark-defaults.conf``.
    :raises SpecError: a secret cannot be handed over on a cluster, or a file is on this host only.
    """
    conf, secret_options = split_options(conf)
    check_executor_options(conf, target.master)
    _check_can_be_handed_over(deployment.stream, secret_options, environment)
    shown, secret = split_secrets(guarded(conf, defaults))
    main, archive = package.main, package.archive
    is_shared = target.launcher == STANDALONE
    places = [_share(store, home, file) if is_shared else str(file) for file in (main, archive)]
    return ClusterApplication(
        master=target.master,
        main=places[0],
        archive=places[1],
        arguments=tuple(arguments),
        spark_version=deployment.spark_version,
        conf=shown,
        secret_conf=secret,
        environment=environment,
        **shipped_lists(deployment),
        image=runtime.image,
        defaults=defaults,
        is_shared=is_shared,
    )


def _check_can_be_handed_over(
    stream: str, secret_options: Collection[str], environment: Iterable[str]
) -> None:
    if secret_options:
        raise SpecError(
            f"Stream {stream!r} has secret Java options, which a cluster would put on the driver's "
            "command line. Put them into a file of the image or of the workers' hosts and name it with "
            "-D...file= instead."
        )
    for name in environment:
        if name in (PRIVATE_CONF, PRIVATE_CONF_FILE):
            raise SpecError(f"The stream's env may not set {name}; the provider does.")


def _share(store: Store, home: str, file: Path) -> str:
    # The folder's name is a digest of its content, so an existing folder is the same.
    path = f"{_PACKAGES}/{file.parent.name}/{file.name}"
    with contextlib.suppress(AlreadyExists):
        store.create(path, file.read_bytes())
    return to_hadoop(join(home, path))


def kubernetes_credentials(conn_id: str) -> Credentials:
    """
    Return the credentials of Airflow's Kubernetes connection.

    :raises SpecError: the provider is not installed, or the connection cannot be used.
    """
    at, known = _known.get(conn_id, (float("-inf"), None))
    if known is not None and time.monotonic() - at < _KEPT:
        return known
    try:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    except ImportError as err:
        raise SpecError(
            f"Kubernetes connection {conn_id!r} needs Airflow's Kubernetes provider. Install "
            "airflow-streaming[kubernetes]."
        ) from err
    try:
        found = credentials_in(KubernetesHook(conn_id=conn_id).get_conn().configuration)
    except Exception as err:
        # The client raises dozens of classes for a connection that cannot be used.
        raise SpecError(f"Kubernetes connection {conn_id!r} cannot be used: {err}") from err
    _known[conn_id] = time.monotonic(), found
    return found


def credentials_in(configuration: Any) -> Credentials:
    """Return the credentials in a ``kubernetes.client.Configuration``, renewed if it can be."""
    if configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook(configuration)
    keys = configuration.api_key
    token = keys.get("authorization") or keys.get("BearerToken") or ""
    authority = configuration.ssl_ca_cert
    return Credentials(
        server=configuration.host.rstrip("/"),
        token=token.removeprefix("Bearer ").removeprefix("bearer "),
        authority=Path(authority).read_text() if authority else "",
        certificate=configuration.cert_file or "",
        key=configuration.key_file or "",
        is_verified=bool(configuration.verify_ssl),
    )
