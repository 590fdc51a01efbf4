"""Replies of a driver's endpoint: evidence only when they are what they should be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.supervision.external.endpoint_reply import (
    MAX_REPLY_BYTES,
    Application,
    parse_applications,
    parse_gauges,
)


def application(name: Any = "local-1", *, completed: Any = False) -> dict[str, Any]:
    attempt = {"startTime": "2026-11-21T05:22:07.115GMT", "completed": completed}
    return {"id": name, "name": "pyspark-shell", "attempts": [attempt]}


def gauges(*names: str) -> bytes:
    values = {f"{name}.inputRate-total": {"value": 2.0} for name in names}
    return json.dumps({"version": "4.0.0", "gauges": values}).encode()


def test_the_running_application_is_named() -> None:
    found = parse_applications(json.dumps([application()]).encode(), expected="local-1")

    assert found == Application(id="local-1", started="2026-11-21T05:22:07.115GMT")


NOT_THE_APPLICATION: list[Any] = [
    [],
    {},
    [application("local-2")],
    [application("local-1", completed=True)],
    [application("local-1", completed=None)],
    [application("local-1"), application("local-2")],
    [application(7)],
    [application("<script>")],
    [application("local-1\n")],
    [{"id": "local-1"}],
    [{"id": "local-1", "attempts": [7]}],
    ["local-1"],
    "local-1",
    None,
]


@pytest.mark.parametrize("reply", NOT_THE_APPLICATION, ids=lambda reply: json.dumps(reply)[:60])
def test_any_other_reply_is_no_evidence(reply: Any) -> None:
    with pytest.raises(RecordError):
        parse_applications(json.dumps(reply).encode(), expected="local-1")


DAMAGED = [
    pytest.param(b"", id="empty"),
    pytest.param(b"Spark is starting up. Please wait a while until it's ready.", id="starting"),
    pytest.param(b"<html></html>", id="a web page"),
    pytest.param(b"[" * 100_000, id="deep, cut off"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, id="deep"),
    pytest.param(b'{"gauges":' * 50_000, id="deep objects"),
    pytest.param(b"[NaN]", id="not a number"),
    pytest.param(b"[1e999]", id="infinite"),
    pytest.param(b"[" + b"1" * 10_000 + b"]", id="a number of ten thousand digits"),
    pytest.param(b"\xff\xfe\x00", id="not text"),
    pytest.param(b" " * (MAX_REPLY_BYTES + 1), id="too large"),
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_reply_is_no_evidence(data: bytes) -> None:
    for parse in (parse_applications, parse_gauges):
        with pytest.raises(RecordError):
            parse(data)


def test_queries_are_known_by_their_gauges_whatever_the_prefix() -> None:
    reply = gauges(
        "local-1.driver.spark.streaming.orders",
        "local-1.driver.spark.streaming.a.b c",
        "my.namespace.driver.spark.streaming.f51691a5-64a8-4afe-a751-e51191acd344",
        "local-1.driver.BlockManager.memory",
    )

    assert parse_gauges(reply) == {"orders", "a.b c", "f51691a5-64a8-4afe-a751-e51191acd344"}


def test_names_that_no_query_has_are_left_out() -> None:
    prefix = "local-1.driver.spark.streaming."

    assert parse_gauges(gauges(f"{prefix}\x1b[31m", f"{prefix}{'x' * 201}", prefix)) == frozenset()


@pytest.mark.parametrize("reply", [{}, {"gauges": []}, {"gauges": None}, []], ids=json.dumps)
def test_a_reply_without_gauges_is_no_evidence(reply: Any) -> None:
    with pytest.raises(RecordError, match="no gauges"):
        parse_gauges(json.dumps(reply).encode())


def test_a_reply_of_thousands_of_queries_is_no_evidence() -> None:
    with pytest.raises(RecordError, match="1001 queries"):
        parse_gauges(gauges(*(f"x.driver.spark.streaming.q{number}" for number in range(1001))))
