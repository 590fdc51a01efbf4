"""
A Kubernetes API server: its credentials and requests.

A place in a cluster is recorded with each epoch as one text, e.g.
``k8s://https://10.0.0.1:6443/streams?connection=kubernetes_default``. Records are untrusted, so a
token is sent only to the server that its own connection names.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.clusters.rest import Answer, Unreachable, ask

_PREFIX: Final = "k8s://"
_NOT_FOUND: Final = 404
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IN_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MAX_FILE: Final = 2**20

_logins: Final[list[Login]] = []

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_IDENTITY: Final = ("name", "uid", "creationTimestamp", "ownerReferences")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    A namespace of a cluster, and the connection whose rights reach it.

    :param server: Address of the API server.
    :param connection: Airflow connection with the credentials; empty for ``KUBECONFIG`` or the
        service account of the pod that asks.
    """

    server: str
    namespace: str
    connection: str = ""

    @classmethod
    def parse(cls, text: str) -> Place:
        """
        Parse a place.

        :raises SpecError: the text is not a place.
        """
        parts = urlsplit(text.removeprefix(_PREFIX))
        namespace = parts.path.strip("/")
        is_place = text.startswith(_PREFIX) and parts.scheme in ("http", "https") and parts.netloc
        if not is_place or parts.username or not _NAMESPACE.fullmatch(namespace):
            raise SpecError(
                f"{text!r:.200} is not a namespace of a Kubernetes cluster. Give the master as "
                "k8s://https://HOST:PORT and the namespace in the connection's extra."
            )
        (connection,) = parse_qs(parts.query).get("connection", [""])[:1]
        server = f"{parts.scheme}://{parts.netloc}"
        return cls(server=server, namespace=namespace, connection=connection)

    def __str__(self) -> str:
        text = f"?{urlencode({'connection': self.connection})}" if self.connection else ""
        return f"{_PREFIX}{self.server}/{self.namespace}{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """
    Credentials for the API server.

    :param server: The only server it may be sent to.
    :param authority: PEM text of the authority of the server's certificate; the system's if empty.
    :param certificate: PEM file of a client certificate.
    :param key: PEM file of its key.
    :param is_verified: Whether the server's certificate is checked.
    """

    server: str
    token: str = field(default="", repr=False)
    authority: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""
    is_verified: bool = True

    def context(self) -> ssl.SSLContext | None:
        """Return how the connection is encrypted; ``None`` for a server without encryption."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.authority or None)
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key or None)
        return context

    def kubeconfig(self) -> str:
        """Return the same as the file that ``KUBECONFIG`` names; it holds the token."""
        cluster: dict[str, Any] = {"server": self.server}
        if self.authority:
            cluster["certificate-authority-data"] = _base64(self.authority)
        if not self.is_verified:
            cluster["insecure-skip-tls-verify"] = True
        user: dict[str, Any] = {"token": self.token} if self.token else {}
        if self.certificate:
            user |= {"client-certificate": self.certificate, "client-key": self.key}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "streams",
                "contexts": [{"name": "streams", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


Login = Callable[[str], Credentials]
"""Returns the credentials of a connection by its id; raises ``SpecError`` where it has none."""


def log_in_by(login: Login) -> None:
    """Have this process take credentials from there: Airflow's side names its connections."""
    _logins[:] = [login]


def log_in(place: Place, environment: Mapping[str, str] = os.environ) -> Credentials:
    """
    Return the credentials for a place.

    :raises SpecError: they are missing, or belong to another server.
    """
    found = _credentials(place.connection, environment)
    if found.server.rstrip("/") != place.server.rstrip("/"):
        raise SpecError(
            f"The credentials of {place.connection or 'this host'!r} are for {found.server}, not for "
            f"{place.server}; they are not sent there. Correct the Kubernetes connection."
        )
    return found


def _credentials(connection: str, environment: Mapping[str, str]) -> Credentials:
    if connection and _logins:
        return _logins[0](connection)
    if path := environment.get("KUBECONFIG"):
        return read_kubeconfig(Path(path))
    if host := environment.get("KUBERNETES_SERVICE_HOST"):
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        return Credentials(
            server=f"https://{host}:{port}",
            token=_text(_IN_POD / "token").strip(),
            authority=_text(_IN_POD / "ca.crt"),
        )
    raise SpecError(
        "No credentials for Kubernetes: no connection can be read here, KUBECONFIG is not "
        "set, and this process does not run in a pod. Set KUBECONFIG to the path of a "
        "kubeconfig file."
    )


def read_kubeconfig(path: Path) -> Credentials:
    """
    Return the credentials of a kubeconfig file's current context.

    Programs that it names are not run.

    :raises SpecError: it cannot be read, or has neither a token nor a certificate.
    """
    import yaml  # heavy

    try:
        config = yaml.safe_load(_text(path))
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        authority = cluster.get("certificate-authority-data")
        token = user.get("token") or (_text(Path(user["tokenFile"])) if "tokenFile" in user else "")
        certificate = user.get("client-certificate", "") if token else user["client-certificate"]
        return Credentials(
            server=str(cluster["server"]),
            token=str(token).strip(),
            authority=base64.b64decode(authority).decode()
            if authority
            else _text(Path(cluster["certificate-authority"]))
            if "certificate-authority" in cluster
            else "",
            certificate=str(certificate),
            key=str(user.get("client-key", "")),
            is_verified=not cluster.get("insecure-skip-tls-verify", False),
        )
    except (KeyError, TypeError, AttributeError, ValueError, StopIteration, yaml.YAMLError):
        # Not chained: the cause could quote a token.
        raise SpecError(
            f"{path} is not a usable kubeconfig. It needs a current context, a server, and a "
            "user with a token or a client-certificate file. Login programs (exec) and "
            "inline certificates work through an Airflow connection only."
        ) from None


def _named(config: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(entry for entry in config[kind] if entry["name"] == name)
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE).decode()
    except OSError as err:
        raise SpecError(f"{path} cannot be read: {err.strerror or err}.") from err


class Namespace:
    """
    A namespace of an API server.

    :param login: Returns the credentials; called for every request, since tokens are renewed.
    """

    def __init__(self, place: Place, login: Callable[[Place], Credentials] = log_in) -> None:
        self.place, self._login = place, login

    def statuses(self, selector: str) -> dict[str, str]:
        """
        Return the status of each pod of a label selector as ``kubectl get`` shows it, by name.

        The table of a thousand pods is a fortieth of the pods themselves, which took a triggerer's event
        loop a second and more. The API server answers from its cache, which is cheap and may lag.
        """
        values = {"labelSelector": selector, "resourceVersion": "0", "includeObject": "None"}
        answer = self.ask("GET", f"pods?{urlencode(values)}", accept=_TABLE)
        columns, rows = answer.body.get("columnDefinitions"), answer.body.get("rows")
        try:
            names = [column["name"] for column in columns]  # type: ignore[union-attr]
            name, status = names.index("Name"), names.index("Status")
            cells = [row["cells"] for row in rows]  # type: ignore[union-attr]
            found = {str(one[name]): str(one[status]) for one in cells}
        except (TypeError, KeyError, ValueError, IndexError):
            found = None
        if not answer.is_success or found is None:
            raise Unreachable(f"pods of {self.place} cannot be listed: {trouble(answer)}")
        return found

    def identities(self, selector: str) -> dict[str, Mapping[str, Any]]:
        """Return the metadata of each pod of a label selector, by name, from the API server's cache."""
        values = {"labelSelector": selector, "resourceVersion": "0"}
        answer = self.ask("GET", f"pods?{urlencode(values)}", accept=_METADATA)
        items = answer.body.get("items")
        if not answer.is_success or not isinstance(items, list):
            raise Unreachable(f"pods of {self.place} cannot be listed: {trouble(answer)}")
        found = (one.get("metadata") for one in items if isinstance(one, dict))
        return {
            str(one.get("name")): {"metadata": {key: one.get(key) for key in _IDENTITY}}
            for one in found
            if isinstance(one, dict)
        }

    def pods(self, selector: str, *, pending: bool = False) -> list[Mapping[str, Any]]:
        """
        List the pods of a label selector.

        :param pending: Only waiting pods, from the API server's cache, which may lag.
        """
        found: list[Mapping[str, Any]] = []
        values = {"labelSelector": selector, "limit": "500"}
        if pending:
            waits = "status.phase=Pending"
            values = {"labelSelector": selector, "fieldSelector": waits, "resourceVersion": "0"}
        while True:
            answer = self.ask("GET", f"pods?{urlencode(values)}")
            items = answer.body.get("items")
            if not answer.is_success or not isinstance(items, list):
                raise Unreachable(f"pods of {self.place} cannot be listed: {trouble(answer)}")
            found += [item for item in items if isinstance(item, dict)]
            metadata = answer.body.get("metadata")
            more = metadata.get("continue") if isinstance(metadata, dict) else None
            if not more:
                return found
            values = {**values, "continue": str(more)}

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        api: str = "api/v1",
    ) -> Answer:
        """
        Send a request below the namespace.

        :param content: Type of the body.
        :param accept: Type of the answer.
        :param api: Group and version of the resource, e.g. ``apis/apps/v1``.
        """
        try:
            credentials = self._login(self.place)
            context = credentials.context()
        except (SpecError, ssl.SSLError, OSError) as err:
            raise Unreachable(f"{self.place.server} cannot be asked: {err}") from err
        headers = {"Content-Type": content, "Accept": accept}
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        root = f"{self.place.server}/{api}/namespaces/{quote(self.place.namespace)}"
        return ask(f"{root}/{path}", method=method, body=body, headers=headers, context=context)


def trouble(answer: Answer) -> str:
    """Return an API server's error message."""
    return f"{answer.status} {answer.text('reason')} {answer.text('message')[:300]}".strip()


def is_absent(answer: Answer) -> bool:
    """Tell whether an API server reports a missing object; any server may answer 404."""
    return answer.status == _NOT_FOUND and answer.text("reason") == "NotFound"
