"""
Judge a wave of a campaign by numbers from elsewhere, such as an SLO in Prometheus.

A query is an HTTP GET that answers JSON. The reply of Prometheus to an instant query is understood; of another reply,
``path`` names the number. A store that does not answer is inconclusive: it says nothing of the streams.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_streaming.changes.campaign.state import QueryAnswer, QueryResult
from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.launch.clusters.rest import Unreachable, ask
from airflow_streaming.model.records.campaign import WaveQuery

SECONDS: Final = 10.0
MOST_BYTES: Final = 1024 * 1024
PROMETHEUS: Final = "data.result.0.value.1"
"""Where Prometheus has the value of the first series of an instant query."""


def judge_wave(
    queries: Sequence[WaveQuery], hosts: Collection[str] | None = None
) -> list[QueryAnswer]:
    """
    Return the answer of each query.

    :param hosts: The only hosts to ask, e.g. ``prometheus:9090``; a record of a home must not choose them.
    """
    return [answer_of(query, hosts) for query in queries]


def answer_of(query: WaveQuery, hosts: Collection[str] | None = None) -> QueryAnswer:
    """Ask one query, and judge its number."""
    place = urlsplit(query.url)
    where = f"Query {query.name!r} to {place.scheme}://{place.netloc}"
    if hosts is not None and place.netloc not in hosts:
        reason = f"{where} was not asked. Add {place.netloc!r} to query_hosts of the fleet's DAG."
        return QueryAnswer(query.name, QueryResult.INCONCLUSIVE, reason)
    try:
        value = number_in(fetched(query.url), query.path or PROMETHEUS)
    except (Unreachable, StreamingError, ValueError) as err:
        return QueryAnswer(query.name, QueryResult.INCONCLUSIVE, f"{where} has no answer: {err}")
    shown = f"{where} is {value:g}"
    if query.failure and query.failure.holds(value):
        return QueryAnswer(
            query.name, QueryResult.FAILURE, f"{shown}; it fails if {query.failure}."
        )
    if query.success.holds(value):
        return QueryAnswer(query.name, QueryResult.SUCCESS, f"{shown}; expected {query.success}.")
    result = QueryResult.INCONCLUSIVE if query.failure else QueryResult.FAILURE
    return QueryAnswer(query.name, result, f"{shown}; expected {query.success}.")


def number_in(data: bytes, path: str) -> float:
    """
    Return the number at a path of a JSON reply, such as ``data.result.0.value.1``.

    :raises RecordError: the path or a number at it is missing.
    """
    try:
        found: Any = json.loads(data)
    except RecursionError:
        raise RecordError("The reply is nested too deeply.") from None
    for part in path.split("."):
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise RecordError(f"The reply has no value at {path}.") from None
    value = math.nan if isinstance(found, bool) else float(found)
    if not math.isfinite(value):
        raise RecordError(f"The value at {path} is {found!r:.80}, not a number.")
    return value


def fetched(url: str) -> bytes:
    """
    Return the body of a reply, without redirects and proxies.

    :raises Unreachable: no whole answer in time, or a larger one.
    :raises RecordError: the answer is an error.
    """
    answer = ask(url, timeout=SECONDS, most=MOST_BYTES)
    if not answer.is_success:
        raise RecordError(f"The reply has the HTTP status {answer.status}.")
    return answer.raw
