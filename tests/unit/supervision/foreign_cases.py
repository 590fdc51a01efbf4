"""Evidence of streams that others launched, and the verdict on each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.spark.tail import Tail
from airflow_streaming.supervision.external.endpoint_reply import (
    Application,
    EndpointSight,
    EndpointState,
)
from airflow_streaming.supervision.external.judge import ExternalEvidence, QueryEvidence

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULES = HealthRules(stall_after=timedelta(seconds=60))
APP, OTHER = Application(id="local-1", started="05:22"), Application(id="local-2", started="05:30")

ANSWERED = EndpointSight(
    state=EndpointState.ANSWERED, application=APP, queries=frozenset({"orders"})
)
WITHOUT_GAUGES = replace(ANSWERED, queries=frozenset())
OF_ANOTHER = replace(ANSWERED, application=OTHER)
REFUSED = EndpointSight(state=EndpointState.REFUSED, reason="http://d:4040 refuses connections.")
TIMED_OUT = EndpointSight(state=EndpointState.TIMED_OUT, reason="http://d:4040 gave no answer.")
UNREADABLE = EndpointSight(state=EndpointState.UNREADABLE, reason="http://d:4040 is nonsense.")

DONE = Tail(name="orders", committed=7, durations=(1.0, 1.0), intervals=(5.0, 5.0))
PLANNED = replace(DONE, planned=8)


def query(tail: Tail = DONE, **changes: Any) -> QueryEvidence:
    given: dict[str, Any] = {"tail": tail, "quiet_for": 3.0, "fresh": True}
    if tail.planned is not None:
        given["planned_for"] = 2.0
    return QueryEvidence(**{**given, **changes})


def evidence(*queries: QueryEvidence, **changes: Any) -> ExternalEvidence:
    return ExternalEvidence(who="/ck/orders", now=NOON, queries=queries, **changes)


CASES = [
    pytest.param(evidence(query()), "healthy", None, id="a commit was seen while listening"),
    pytest.param(evidence(query(PLANNED)), "healthy", None, id="and the next batch is in work"),
    pytest.param(
        evidence(query(fresh=False)), "starting", None, id="no commit was seen yet, nothing planned"
    ),
    pytest.param(
        evidence(query(PLANNED, fresh=False)), "starting", None, id="no commit was seen, planned"
    ),
    pytest.param(
        evidence(query(Tail(name="orders"), fresh=False)), "starting", None, id="no batch at all"
    ),
    pytest.param(
        evidence(query(PLANNED, planned_for=60.0, quiet_for=60.0)),
        "stalled",
        "stalled",
        id="planned and uncommitted for longer than the window",
    ),
    pytest.param(
        evidence(query(PLANNED, planned_for=59.9, quiet_for=70.0)),
        "healthy",
        None,
        id="planned for just less than the window",
    ),
    pytest.param(
        evidence(query(replace(PLANNED, durations=(10.0,)), planned_for=200.0, quiet_for=200.0)),
        "healthy",
        None,
        id="20 times the usual batch",
    ),
    pytest.param(
        evidence(query(PLANNED, planned_for=60.0, quiet_for=60.0, fresh=False)),
        "stalled",
        "stalled",
        id="stalled since before anybody listened",
    ),
    pytest.param(
        evidence(query(quiet_for=60.0)), "unreachable", "quiet", id="quiet: idle or dead, who knows"
    ),
    pytest.param(
        evidence(query(replace(DONE, intervals=(100.0,)), quiet_for=299.0)),
        "healthy",
        None,
        id="quiet between the batches of a slow processing trigger",
    ),
    pytest.param(
        evidence(query(replace(DONE, unknown="offsets/8: of version v3."))),
        "unreachable",
        "unreadable",
        id="of an unknown version",
    ),
    pytest.param(evidence(), "unreachable", "no_checkpoint", id="no checkpoint"),
    # With an endpoint
    pytest.param(
        evidence(query(has_gauge=True, quiet_for=600.0), endpoint=ANSWERED, application=APP),
        "idle",
        None,
        id="quiet, and its gauges are there",
    ),
    pytest.param(
        evidence(query(has_gauge=True, fresh=False), endpoint=ANSWERED, application=APP),
        "idle",
        None,
        id="its gauges are a sign of life",
    ),
    pytest.param(
        evidence(query(has_gauge=True), endpoint=ANSWERED, application=APP),
        "healthy",
        None,
        id="commits, and its gauges are there",
    ),
    pytest.param(
        evidence(query(quiet_for=60.0), endpoint=WITHOUT_GAUGES, application=APP),
        "unreachable",
        "quiet",
        id="an application without gauges says nothing of its query",
    ),
    pytest.param(
        evidence(
            query(PLANNED, planned_for=60.0, quiet_for=61.0, has_gauge=True),
            endpoint=ANSWERED,
            application=APP,
        ),
        "stalled",
        "stalled",
        id="stalled in a living application",
    ),
    pytest.param(
        evidence(
            query(quiet_for=9.0, has_gauge=False, gauge_lost_for=6.0),
            endpoint=WITHOUT_GAUGES,
            application=APP,
        ),
        "failed",
        "query_ended",
        id="its gauges are gone from a living application",
    ),
    pytest.param(
        evidence(
            query(quiet_for=9.0, has_gauge=False, gauge_lost_for=4.0),
            endpoint=WITHOUT_GAUGES,
            application=APP,
        ),
        "healthy",
        None,
        id="its gauges were missed once",
    ),
    pytest.param(
        evidence(
            query(quiet_for=5.0, has_gauge=False, gauge_lost_for=6.0),
            endpoint=WITHOUT_GAUGES,
            application=APP,
        ),
        "healthy",
        None,
        id="gauges are gone and it commits: they were of another query",
    ),
    pytest.param(
        evidence(
            query(quiet_for=9.0, has_gauge=False, gauge_lost_for=6.0),
            query(replace(DONE, name="items")),
            endpoint=ANSWERED,
            application=APP,
        ),
        "degraded",
        "query_ended",
        id="one of two queries has ended",
    ),
    pytest.param(
        evidence(query(quiet_for=9.0), endpoint=REFUSED, application=APP, refused_for=6.0),
        "dead",
        "driver_gone",
        id="it answered before, refuses now, and nothing is committed",
    ),
    pytest.param(
        evidence(query(PLANNED, quiet_for=9.0), endpoint=REFUSED, application=APP, refused_for=6.0),
        "dead",
        "driver_gone",
        id="the same in the middle of a batch",
    ),
    pytest.param(
        evidence(query(quiet_for=9.0), endpoint=REFUSED, application=APP, refused_for=4.0),
        "healthy",
        None,
        id="refused only just now",
    ),
    pytest.param(
        evidence(query(quiet_for=5.0), endpoint=REFUSED, application=APP, refused_for=60.0),
        "healthy",
        None,
        id="refuses, but goes on committing",
    ),
    pytest.param(
        evidence(
            query(quiet_for=60.0),
            query(replace(DONE, name="items")),
            endpoint=REFUSED,
            application=APP,
            refused_for=60.0,
        ),
        "unreachable",
        "quiet",
        id="refuses, one query is quiet and another commits",
    ),
    pytest.param(
        evidence(query(quiet_for=9.0, fresh=False), endpoint=REFUSED, refused_for=9.0),
        "starting",
        None,
        id="has refused ever since we listen",
    ),
    pytest.param(
        evidence(query(quiet_for=600.0), endpoint=REFUSED, refused_for=600.0),
        "unreachable",
        "quiet",
        id="has refused ever since, and is quiet",
    ),
    pytest.param(
        evidence(query(), endpoint=TIMED_OUT, application=APP), "slow", "slow", id="timing out"
    ),
    pytest.param(
        evidence(query(quiet_for=0.0), endpoint=TIMED_OUT, application=APP),
        "healthy",
        None,
        id="timing out while it commits",
    ),
    pytest.param(
        evidence(query(quiet_for=600.0), endpoint=TIMED_OUT, application=APP),
        "unreachable",
        "quiet",
        id="timing out and quiet",
    ),
    pytest.param(
        evidence(
            query(PLANNED, planned_for=600.0, quiet_for=600.0), endpoint=TIMED_OUT, application=APP
        ),
        "stalled",
        "stalled",
        id="timing out in a batch that is overdue",
    ),
    pytest.param(
        evidence(query(), endpoint=UNREADABLE, application=APP),
        "healthy",
        None,
        id="a nonsense reply is no evidence",
    ),
    pytest.param(
        evidence(query(quiet_for=1.0), endpoint=OF_ANOTHER, application=APP, changed_for=5.0),
        "degraded",
        "application_changed",
        id="another application, and it commits",
    ),
    pytest.param(
        evidence(query(quiet_for=9.0), endpoint=OF_ANOTHER, application=APP, changed_for=5.0),
        "unreachable",
        "application_changed",
        id="another application, and nothing is committed since",
    ),
    # Several queries
    pytest.param(
        evidence(
            query(replace(DONE, name="items")),
            query(PLANNED, planned_for=99.0, quiet_for=99.0),
            query(replace(DONE, name="users"), quiet_for=99.0),
        ),
        "stalled",
        "stalled",
        id="the gravest of three speaks",
    ),
]
