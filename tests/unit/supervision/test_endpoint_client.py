"""Asking an endpoint: bounded, to one address, and never fooled."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from itertools import chain, repeat
from pathlib import Path

import pytest

from airflow_streaming.supervision.external.address import Address
from airflow_streaming.supervision.external.endpoint import ask
from airflow_streaming.supervision.external.endpoint_reply import (
    Application,
    EndpointSight,
    EndpointState,
)
from tests.patience import PATIENCE
from tests.unit.supervision.servers import Answer, certificate, driver, raw, reply, serving

APPLICATIONS = json.dumps(
    [{"id": "local-1", "attempts": [{"startTime": "now", "completed": False}]}]
).encode()


def asked(port: int, *, seconds: float = PATIENCE, expected: str | None = None) -> EndpointSight:
    address = Address(scheme="http", host="127.0.0.1", port=port)
    return ask(address, seconds=seconds, expected=expected)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_a_driver_tells_its_application_and_its_queries() -> None:
    with serving(driver(queries=("orders", "items"))) as server:
        sight = asked(server.port, expected="local-1")

    assert sight.state is EndpointState.ANSWERED
    assert sight.application == Application(id="local-1", started="2026-11-21T05:22:07.115GMT")
    assert sight.queries == {"orders", "items"}
    assert server.paths == ["/api/v1/applications", "/metrics/json/"]


def test_a_driver_that_is_another_application_is_no_evidence() -> None:
    with serving(driver(application="local-2")) as server:
        sight = asked(server.port, expected="local-1")

    assert sight.state is EndpointState.UNREADABLE
    assert "application local-2, not of local-1" in sight.reason
    assert sight.application is None


def test_a_driver_without_readable_gauges_is_still_that_application() -> None:
    def answer(connection: socket.socket, path: str) -> None:
        is_known = path.startswith("/api")
        connection.sendall(reply(APPLICATIONS if is_known else b"{}"))

    with serving(answer) as server:
        sight = asked(server.port)

    assert (sight.state, sight.queries) == (EndpointState.ANSWERED, None)


def test_a_port_that_nobody_listens_on_refuses() -> None:
    sight = asked(free_port())

    assert sight.state is EndpointState.REFUSED
    assert sight.reason.endswith("refuses connections.")


def chunked(*parts: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


def test_a_reply_in_chunks_is_read() -> None:
    with serving(raw(chunked(APPLICATIONS[:10], APPLICATIONS[10:]))) as server:
        assert asked(server.port).application == Application(id="local-1", started="now")


UNREADABLE = [
    pytest.param(
        raw(reply(b"", "Location: http://169.254.169.254/", status="301 Moved Permanently")),
        "status 301",
        id="a redirect",
    ),
    pytest.param(raw(reply(b"", status="403 Forbidden")), "status 403", id="forbidden"),
    pytest.param(raw(reply(b"[]", status="500 Oh")), "status 500", id="an error"),
    pytest.param(raw(reply(b"<html>")), "Not valid JSON", id="a web page"),
    pytest.param(raw(reply(b"[" * 200_000)), "Not valid JSON", id="deep"),
    pytest.param(raw(reply(APPLICATIONS)[:-5]), "IncompleteRead", id="cut off"),
    pytest.param(raw(chunked(APPLICATIONS)[:-9]), "IncompleteRead", id="cut off in a chunk"),
    pytest.param(raw(b"SSH-2.0-OpenSSH\r\n"), "BadStatusLine", id="not HTTP"),
    pytest.param(raw(b""), "RemoteDisconnected", id="nothing"),
    pytest.param(
        raw(reply(gzip.compress(APPLICATIONS), "Content-Encoding: gzip")),
        "compressed",
        id="compressed",
    ),
    pytest.param(
        raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), "HTTPException", id="headers"
    ),
    pytest.param(
        raw(b"HTTP/1.1 200 OK\r\n\r\n", *([b" " * 65536] * 100)), "larger than", id="huge"
    ),
    pytest.param(
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n[]"),
        "IncompleteRead",
        id="a length that is a lie",
    ),
]


@pytest.mark.parametrize(("answer", "why"), UNREADABLE)
def test_a_bad_reply_means_could_not_look(answer: Answer, why: str) -> None:
    with serving(answer) as server:
        sight = asked(server.port)

    assert sight.state is EndpointState.UNREADABLE
    assert why in sight.reason
    assert sight.application is None


def silent(connection: socket.socket, path: str) -> None:
    """Say nothing until the other side gives up."""
    connection.recv(1)


def dripping(connection: socket.socket, path: str) -> None:
    """Send a byte now and then, for ever; each read by itself is in time."""
    waiting = threading.Event()
    for byte in chain(b"HTTP/1.1 200 OK\r\nX: ", repeat(ord("x"))):
        connection.sendall(bytes([byte]))
        waiting.wait(0.05)


@pytest.mark.parametrize("answer", [silent, dripping])
def test_the_whole_look_has_one_deadline(answer: Answer) -> None:
    with serving(answer) as server:
        sight = asked(server.port, seconds=0.4)

    assert sight.state is EndpointState.TIMED_OUT
    assert sight.reason.endswith("gave no answer within 0.4 s.")


def test_a_resolver_that_hangs_holds_nobody_up() -> None:
    released = threading.Event()

    def hanging(host: str, port: int) -> list[str]:
        released.wait(PATIENCE)
        return []

    address = Address(scheme="http", host="driver.internal", port=4040)
    sight = ask(address, seconds=0.2, resolver=hanging)
    released.set()

    assert sight.state is EndpointState.TIMED_OUT


@pytest.mark.parametrize(
    "ips",
    [
        ["169.254.169.254"],
        ["127.0.0.1", "169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["fe80::1%eth0"],
        ["100.100.100.200"],
        ["0.0.0.0"],  # noqa: S104 - nothing is bound
    ],
    ids=" and ".join,
)
def test_a_name_that_leads_to_a_forbidden_address_is_not_connected_to(ips: list[str]) -> None:
    with serving(driver()) as server:
        address = Address(scheme="http", host="driver.internal", port=server.port)
        sight = ask(address, seconds=PATIENCE, resolver=lambda host, port: ips)

    assert sight.state is EndpointState.UNREADABLE
    assert ips[-1] in sight.reason
    assert server.paths == []


def test_a_name_is_resolved_once_and_that_very_address_is_connected_to() -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    with serving(driver()) as server:
        address = Address(scheme="http", host="driver.internal", port=server.port)
        sight = ask(address, seconds=PATIENCE, resolver=lambda host, port: answers.pop(0))

    assert sight.state is EndpointState.ANSWERED
    assert answers == [["169.254.169.254"]], "it was asked once"


def test_a_name_that_cannot_be_resolved_means_could_not_look() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror("no such host")

    sight = ask(
        Address(scheme="http", host="nowhere", port=4040), seconds=PATIENCE, resolver=unknown
    )

    assert sight.state is EndpointState.UNREADABLE
    assert "cannot be resolved" in sight.reason


def test_the_next_address_of_a_name_is_tried_when_one_refuses() -> None:
    with serving(driver()) as server:
        address = Address(scheme="http", host="localhost", port=server.port)
        sight = ask(
            address, seconds=PATIENCE, resolver=lambda host, port: ["127.0.0.2", "127.0.0.1"]
        )

    assert sight.state is EndpointState.ANSWERED


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(driver()) as server, serving(raw(reply(b"[]"))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        sight = asked(server.port)

    assert sight.state is EndpointState.ANSWERED
    assert proxy.paths == []


@pytest.mark.parametrize(
    ("host", "state"),
    [("driver.internal", EndpointState.ANSWERED), ("other.internal", EndpointState.UNREADABLE)],
)
def test_a_certificate_has_to_be_of_the_name_although_an_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, state: EndpointState
) -> None:
    context, trusted = certificate(tmp_path, "driver.internal")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))

    with serving(driver(), context) as server:
        address = Address(scheme="https", host=host, port=server.port)
        sight = ask(address, seconds=PATIENCE, resolver=lambda host, port: ["127.0.0.1"])

    assert sight.state is state


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    context, _ = certificate(tmp_path, "driver.internal")

    with serving(driver(), context) as server:
        address = Address(scheme="https", host="driver.internal", port=server.port)
        sight = ask(address, seconds=PATIENCE, resolver=lambda host, port: ["127.0.0.1"])

    assert sight.state is EndpointState.UNREADABLE
    assert server.paths == []
