"""Waves that are judged by queries to a real HTTP server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from airflow_streaming.changes.campaign.analysis import judge_wave, number_in
from airflow_streaming.changes.campaign.state import QueryAnswer, QueryResult
from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.records.campaign import Bound, WaveQuery

S, F, I = QueryResult.SUCCESS, QueryResult.FAILURE, QueryResult.INCONCLUSIVE


class Answering(BaseHTTPRequestHandler):
    """Answers each path with its reply."""

    replies: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        code, body = self.replies.get(self.path, (404, b"no such path"))
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/slo")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def prometheus(value: str) -> bytes:
    series = [{"metric": {}, "value": [1795218635.1, value]}]
    return json.dumps({"status": "success", "data": {"result": series}}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    Answering.replies = {
        "/slo": (200, prometheus("0.995")),
        "/low": (200, prometheus("0.5")),
        "/between": (200, prometheus("0.95")),
        "/nan": (200, prometheus("NaN")),
        "/empty": (200, b'{"status": "success", "data": {"result": []}}'),
        "/json": (200, b'{"checks": {"lag": 3}}'),
        "/text": (200, b"all is well"),
        "/error": (500, b"down"),
        "/moved": (302, b""),
        "/deep": (200, b"[" * 200_000),
        "/large": (200, b"1" * (2 * 1024 * 1024)),
    }
    made = HTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()


def query(url: str, success: str = ">=0.99", failure: str = "<0.9", path: str = "") -> WaveQuery:
    return WaveQuery(
        name="slo",
        url=url,
        path=path,
        success=Bound.parsed(success),
        failure=Bound.parsed(failure) if failure else None,
    )


def asked(*queries: WaveQuery) -> QueryAnswer:
    (found,) = judge_wave(queries)
    return found


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/slo", S),
        ("/low", F),
        ("/between", I),
        ("/nan", I),
        ("/empty", I),
        ("/text", I),
        ("/error", I),
        ("/moved", I),
        ("/large", I),
        ("/missing", I),
    ],
)
def test_a_reply_of_prometheus_is_judged(server: str, path: str, result: QueryResult) -> None:
    assert asked(query(f"{server}{path}")).result is result


def test_without_a_failure_condition_everything_else_fails(server: str) -> None:
    found = asked(query(f"{server}/between", failure=""))

    assert found.result is F
    assert "is 0.95; expected >= 0.99" in found.reason


def test_another_reply_has_its_number_at_a_path(server: str) -> None:
    assert asked(query(f"{server}/json", "<=5", "", "checks.lag")).result is S


def test_a_server_that_is_away_says_nothing(server: str) -> None:
    assert asked(query("http://127.0.0.1:9")).result is I


@pytest.mark.parametrize("text", ["0.99", ">=", "=> 1", "> x", ">= nan"])
def test_a_condition_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="condition"):
        Bound.parsed(text)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/x", "http://user:pass@host/x", "host/x"]
)
def test_only_plain_http_is_asked(url: str) -> None:
    with pytest.raises(SpecError, match="http"):
        query(url)


def test_only_the_hosts_of_the_dag_are_asked(server: str) -> None:
    host = server.removeprefix("http://")

    assert judge_wave([query(f"{server}/slo")], [host])[0].result is S
    (refused,) = judge_wave([query(f"{server}/slo")], ["prometheus:9090"])
    assert refused.result is I
    assert f"Add '{host}' to query_hosts" in refused.reason


def test_a_boolean_is_no_number() -> None:
    with pytest.raises(RecordError, match="not a number"):
        number_in(b'{"ok": true}', "ok")


def test_a_reply_that_is_nested_without_end_says_nothing(server: str) -> None:
    assert asked(query(f"{server}/deep")).result is I


def test_a_server_that_speaks_no_http_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(1_000)
                connection.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=answer, daemon=True).start()
        found = asked(query(f"http://127.0.0.1:{listening.getsockname()[1]}/slo"))

    assert found.result is I
