"""
Replies of a driver's metrics endpoint, and their value as evidence.

A reply is evidence only if it belongs to one running application, the expected one. Any other reply
means "could not look".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.wire import parse_json_value

MAX_REPLY_BYTES: Final = 5 * 1024 * 1024
MAX_QUERIES: Final = 1000
_APPLICATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_STREAMING: Final = ".driver.spark.streaming."


class EndpointState(StrEnum):
    """Results of reading an endpoint."""

    ANSWERED = "answered"
    """By a running Spark application, whose id is known."""
    REFUSED = "refused"
    """Its host answers, and nothing listens on the port."""
    TIMED_OUT = "timed_out"
    UNREADABLE = "unreadable"
    """Could not look, or the reply is not one of a Spark driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """
    A running Spark application.

    :param started: Its start as its driver writes it; tells it from a later one of the same id.
    """

    id: str
    started: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSight:
    """
    The answer of an endpoint.

    :param reason: Why it did not answer, as a sentence.
    :param queries: Names, or ids of nameless ones, of the queries with gauges; ``None`` if the
        gauges could not be read.
    """

    state: EndpointState
    reason: str = ""
    application: Application | None = None
    queries: frozenset[str] | None = None


def parse_applications(data: bytes, *, expected: str | None = None) -> Application:
    """
    Parse the reply of ``/api/v1/applications``.

    :param expected: The application it must name; default: whichever it names.
    :raises RecordError: not such a reply, or not of exactly one running application, or of
        another one.
    """
    listed = parse_json_value(data, limit=MAX_REPLY_BYTES)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise RecordError("The reply is not a list of applications.")
    running = [found for one in listed if (found := _running(one)) is not None]
    if len(running) != 1:
        raise RecordError(f"The reply names {len(running)} running applications instead of one.")
    if expected is not None and running[0].id != expected:
        raise RecordError(f"The reply is of application {running[0].id}, not of {expected}.")
    return running[0]


def parse_gauges(data: bytes) -> frozenset[str]:
    """
    Return the names of the streaming queries in a reply of ``/metrics/json/``.

    Spark has gauges of a query from its start to its end, if
    ``spark.sql.streaming.metricsEnabled`` is true when it starts.

    :raises RecordError: not such a reply.
    """
    reply = parse_json_value(data, limit=MAX_REPLY_BYTES)
    gauges = reply.get("gauges") if isinstance(reply, dict) else None
    if not isinstance(gauges, dict):
        raise RecordError("The reply has no gauges.")
    # The prefix is the application's id, or whatever spark.metrics.namespace says.
    found = {key.partition(_STREAMING)[2].rpartition(".")[0] for key in gauges if _STREAMING in key}
    names = frozenset(name for name in found if 0 < len(name) <= 200 and name.isprintable())
    if len(names) > MAX_QUERIES:
        raise RecordError(f"The reply has gauges of {len(names)} queries.")
    return names


def _running(application: dict[str, Any]) -> Application | None:
    attempts, name = application.get("attempts"), application.get("id")
    if not isinstance(attempts, list) or not isinstance(name, str):
        raise RecordError("An application in the reply has no id or no attempts.")
    if not _APPLICATION.fullmatch(name):
        raise RecordError("An application in the reply has an id that is not one.")
    for attempt in attempts:
        # A history server lists applications too, including ended ones.
        if isinstance(attempt, dict) and attempt.get("completed") is False:
            started = attempt.get("startTime")
            return Application(
                id=name, started=f"{started:.64}" if isinstance(started, str) else ""
            )
    return None
