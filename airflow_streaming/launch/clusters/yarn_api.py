"""
A driver's state by YARN's ResourceManager and NodeManagers, and its proof.

Pure, except for ``ResourceManagers`` at the end. The answers follow Hadoop 2.10 and 3
(``ResourceManagerRest``, ``NodeManagerRest``).

Proof by an application's state (``RMAppImpl``, ``RMAppAttemptImpl``):

- A state that is not terminal: its application master may run, or will.
- A terminal state: the ResourceManager has finished with it, but its process may run. It writes
  ``FAILED`` for a lost node and for an application master without a sign of life, and ``KILLED``
  before the node has killed any process. So the NodeManager of the container is asked as well; only
  an exit code that a NodeManager has reported is a proof alone.
- No such application: it was never submitted, if the ResourceManager has kept all applications
  since. After a restart without a state store it may have forgotten it.

A standby answers with a redirection or a text in place of JSON; neither counts as an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, urlencode

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.clusters.rest import Answer, Unreachable, ask
from airflow_streaming.model.observation import Process, ProcessState

_PREFIX: Final = "yarn://"
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?")
_APPLICATION: Final = re.compile(r"application_[0-9]{1,20}_[0-9]{1,10}")
_LOGS: Final = re.compile(
    r"(https?://[A-Za-z0-9._-]+:[0-9]{1,5})/node/containerlogs/(container_[A-Za-z0-9_]{1,80})/.*"
)
_EXIT: Final = re.compile(
    r"Application application_\w+ failed \d+ times? .{0,200}?due to AM Container for "
    r"appattempt_\w+ exited with\s+exitCode: (-?\d+)",
    re.DOTALL,
)
_BY_THE_NODE: Final = (-103, -104)
"""Exit statuses below 0 that a NodeManager sets itself once the process is gone: too much memory. The
others are written by the ResourceManager as well, which then has not asked the node."""
_VOLATILE: Final = "NullRMStateStore"
CLOCKS: Final = timedelta(minutes=10)
"""By how much the clocks of a cluster's hosts may differ where a start is compared with another."""
_NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401

Negotiate = Callable[[str], str]
"""Returns the ``Authorization`` header for a host, from this process's Kerberos tickets; raises
``Unreachable``."""


class AppState(StrEnum):
    """States of an application as the ResourceManager gives them."""

    NEW = "NEW"
    NEW_SAVING = "NEW_SAVING"
    SUBMITTED = "SUBMITTED"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


ENDED: Final = frozenset({AppState.FINISHED, AppState.FAILED, AppState.KILLED})
LIVING: Final = tuple(state for state in AppState if state not in ENDED)


def parse_place(text: str) -> tuple[str, ...]:
    """
    Return the ResourceManagers' addresses of a place, ``yarn://http://rm1:8088,http://rm2:8088``.

    :raises SpecError: it is malformed.
    """
    addresses = tuple(text.removeprefix(_PREFIX).split(","))
    if not text.startswith(_PREFIX) or not all(map(_ADDRESS.fullmatch, addresses)):
        raise SpecError(
            f"{text!r:.300} does not name the web addresses of YARN's ResourceManagers. Give them as the "
            "connection's extra yarn_resourcemanager_webapp_address, e.g. http://rm1:8088,http://rm2:8088."
        )
    return addresses


def place_of(addresses: str) -> str:
    """
    Return the place for a connection's web addresses, separated by commas.

    :raises SpecError: they are malformed.
    """
    found = (one.strip().rstrip("/") for one in addresses.split(","))
    place = _PREFIX + ",".join(one if "://" in one else f"http://{one}" for one in found)
    parse_place(place)
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """
    An application in the ResourceManager's answer.

    :param state: ``None`` if this release does not know it.
    :param user: The user that submitted it, as YARN has authenticated it.
    :param began: Milliseconds since 1970 by the ResourceManager's clock; ``None`` for a reader who
        may not see the application's details.
    :param node: Web address of the NodeManager that ran the application master; empty if not known.
    :param logs: Address of the application master's logs.
    """

    id: str
    state: AppState | None
    user: str = ""
    tags: frozenset[str] = frozenset()
    diagnostics: str = ""
    began: int | None = None
    node: str = ""
    container: str = ""
    logs: str = ""

    @classmethod
    def of(cls, body: object) -> Application | None:
        """Read an application; ``None`` for other content."""
        if not isinstance(body, dict) or not _APPLICATION.fullmatch(_text(body, "id")):
            return None
        known = {state.value: state for state in AppState}
        logs = _LOGS.fullmatch(_text(body, "amContainerLogs"))
        began = body.get("startedTime")
        return cls(
            id=body["id"],
            state=known.get(_text(body, "state")),
            user=_text(body, "user"),
            tags=frozenset(tag.strip() for tag in _text(body, "applicationTags").split(",")),
            diagnostics=_text(body, "diagnostics"),
            began=began if isinstance(began, int) and began > 0 else None,
            node=logs[1] if logs else "",
            container=logs[2] if logs else "",
            logs=logs[0] if logs else "",
        )

    @property
    def order(self) -> tuple[int, ...]:
        """Return the place of its id among all: ResourceManagers count them up."""
        return tuple(map(int, self.id.split("_")[1:]))

    @property
    def has_ended(self) -> bool:
        """Tell whether the ResourceManager has done with it."""
        return self.state in ENDED

    def __str__(self) -> str:
        """Return its state and reason, in YARN's own words."""
        why = " ".join(self.diagnostics.split())[:300]
        return f"{self.id} is {self.state or 'in no known state'}{f': {why}' if why else ''}"


def driver_among(found: Sequence[Application], recorded: Mapping[str, str]) -> Application | None:
    """
    Return the application of a driver among those with its mark: a living one, else the newest.

    Every user of a cluster can read the tags of an application and submit another one with them. The
    mark is unknown before the driver is submitted, so the first application is the driver's.
    Applications of other users do not count.

    :param recorded: Handle of the driver's launch record, with ``user`` where it is known.
    """
    first = min(found, key=lambda one: one.order, default=None)
    user = recorded.get("user") or (first.user if first is not None else "")
    own = [one for one in found if one.user == user]
    alive = [one for one in own if not one.has_ended]
    return max(alive or own, key=lambda one: one.order, default=None)


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def judge(application: Application) -> Process | None:
    """Return the state that the ResourceManager proves; ``None`` if the NodeManager must answer."""
    text = str(application)
    if application.state is None:
        return Process.unseen(text)
    if not application.has_ended:
        return Process(state=ProcessState.RUNNING, detail=text)
    if application.began is None:
        return Process.unseen(f"{text}; this user may not see where it ran (yarn.acl.enable)")
    if reported_exit(application) is not None:
        return Process.gone(text)
    if not application.container:
        if application.state is AppState.FINISHED:
            return Process.unseen(f"{text}; the ResourceManager does not say where it ran")
        return Process.gone(f"{text}; it was never given a container")
    return None


def reported_exit(application: Application) -> int | None:
    """Return the exit code that a NodeManager has reported of the application master."""
    found = _EXIT.match(application.diagnostics)
    if application.state is not AppState.FAILED or found is None:
        return None
    code = int(found[1])
    return code if code >= 0 or code in _BY_THE_NODE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """
    A NodeManager's answer about a container.

    :param state: Its word; empty where it does not know the container.
    :param is_known: Whether it knows the container; ``None`` without a usable answer.
    :param up_since: Milliseconds since 1970 at which it was started.
    """

    state: str = ""
    is_known: bool | None = None
    up_since: int | None = None


def judge_node(application: Application, report: NodeReport) -> Process:
    """
    Return the state that a NodeManager proves for a finished application.

    A NodeManager that started before the application has known all its containers, so an unknown
    container has ended. A later one may have forgotten a container that lives on.
    """
    message = f"{application}; node {application.node}"
    if report.is_known is None:
        return Process.unseen(f"{message} does not say whether its container has ended")
    if report.is_known:
        if report.state in ("DONE", "COMPLETE"):
            return Process.gone(f"{message} says that its container has ended")
        return Process(
            state=ProcessState.RUNNING, detail=f"{message} says its container is {report.state}"
        )
    margin = CLOCKS.total_seconds() * 1000
    if report.up_since is None or report.up_since + margin > (application.began or 0):
        return Process.unseen(f"{message} was restarted since and does not know its container")
    return Process.gone(f"{message} has no such container any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerInfo:
    """
    The active ResourceManager's own status.

    :param since: Milliseconds since 1970 at which it became active.
    :param store: Class in which it keeps applications across restarts.
    """

    since: int | None
    store: str


def absence_is_proof(info: ManagerInfo, asked_after: datetime) -> bool:
    """
    Tell whether an application that the active ResourceManager does not know was never submitted.

    :param asked_after: When its epoch was begun; nothing was submitted for it before.
    """
    if info.store and not info.store.endswith(_VOLATILE):
        return True
    began = asked_after.timestamp() * 1000
    return info.since is not None and info.since + CLOCKS.total_seconds() * 1000 < began


def negotiate(host: str) -> str:
    """Return a Kerberos header for a host."""
    import base64

    try:
        import spnego  # comes with requests-kerberos
    except ImportError as err:
        raise Unreachable(
            f"{host} asks for Kerberos. Install requests-kerberos and run `airflow kerberos`"
        ) from err
    try:
        token = spnego.client(hostname=host, service="HTTP", protocol="kerberos").step() or b""
    except Exception as err:  # of a library of C
        raise Unreachable(f"no Kerberos ticket for HTTP/{host}: {err}") from err
    return f"Negotiate {base64.b64encode(token).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagers:
    """
    The ResourceManagers of one cluster; the active one answers.

    :param user: Sent as ``user.name`` with changes; YARN refuses changes without a user.
    :param negotiate: Returns the header for a server that requires Kerberos.
    """

    addresses: tuple[str, ...]
    user: str = ""
    negotiate: Negotiate = field(default=negotiate)

    def driver(self, tag: str, recorded: Mapping[str, str]) -> Application | None:
        """Return the application of the driver with a mark; see ``driver_among``."""
        return driver_among(self.applications(tag), recorded)

    def applications(self, tag: str, states: tuple[AppState, ...] = ()) -> list[Application]:
        """List the applications with a tag."""
        values = {"applicationTags": tag, **({"states": ",".join(states)} if states else {})}
        body = self._active(f"apps?{urlencode(values)}", "apps").body["apps"]
        listed = body.get("app") if isinstance(body, dict) else None
        found = (Application.of(one) for one in (listed if isinstance(listed, list) else []))
        return [one for one in found if one is not None and tag in one.tags]

    def info(self) -> ManagerInfo:
        """Return the active ResourceManager's own status."""
        body = self._active("info", "clusterInfo").body["clusterInfo"]
        found = body if isinstance(body, dict) else {}
        since = found.get("startedOn")
        return ManagerInfo(
            since=since if isinstance(since, int) else None,
            store=_text(found, "rmStateStoreName"),
        )

    def kill(self, application: str) -> None:
        """Ask for an application to be killed."""
        text = f"?{urlencode({'user.name': self.user})}" if self.user else ""
        path = f"apps/{quote(application)}/state{text}"
        self._active(path, "state", method="PUT", body={"state": AppState.KILLED})

    def node(self, application: Application) -> NodeReport:
        """Return the answer of an application's NodeManager; it never raises."""
        root = f"{application.node}/ws/v1/node"
        try:
            answer = self._ask(f"{root}/containers/{application.container}")
            if answer.status == _NOT_FOUND and answer.body:
                info = self._ask(f"{root}/info").body.get("nodeInfo")
                since = info.get("nmStartupTime") if isinstance(info, dict) else None
                return NodeReport(
                    is_known=False, up_since=since if isinstance(since, int) else None
                )
        except Unreachable:
            return NodeReport()
        container = answer.body.get("container")
        if not answer.is_success or not isinstance(container, dict):
            return NodeReport()
        return NodeReport(is_known=True, state=_text(container, "state"))

    def _active(
        self, path: str, key: str, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> Answer:
        """Return the answer of the first ResourceManager with a usable one."""
        refusals = []
        for address in self.addresses:
            try:
                answer = self._ask(f"{address}/ws/v1/cluster/{path}", method=method, body=body)
            except Unreachable as err:
                refusals.append(str(err))
                continue
            info = answer.body.get("clusterInfo")
            is_standby = isinstance(info, dict) and info.get("haState") not in (None, "ACTIVE")
            if answer.is_success and key in answer.body and not is_standby:
                return answer
            refusals.append(f"{address} {_refusal(answer)}")
        raise Unreachable(f"no active ResourceManager answers: {'; '.join(refusals)}")

    def _ask(
        self, url: str, *, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> Answer:
        answer = ask(url, method=method, body=body)
        if answer.status != _UNAUTHORIZED:
            return answer
        host = url.split("/")[2].partition(":")[0]
        headers = {"Authorization": self.negotiate(host)}
        return ask(url, method=method, body=body, headers=headers)


def _refusal(answer: Answer) -> str:
    error = answer.body.get("RemoteException")
    if isinstance(error, dict):
        return f"refuses ({answer.status}): {_text(error, 'message')[:300]}"
    if answer.status in (301, 302, 303, 307, 308) or b"standby" in answer.raw[:500].lower():
        return "is a standby"
    return f"answers with {answer.status} and no word of YARN's"
