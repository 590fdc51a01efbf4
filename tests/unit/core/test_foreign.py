"""Evidence of a stream that we did not launch, and what it means."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from airflow_streaming.core.foreign.endpoint import Application, EndpointSight, EndpointState
from airflow_streaming.core.foreign.evidence import (
    ForeignEvidence,
    QueryEvidence,
    gauge_of,
    to_query_sight,
)
from airflow_streaming.core.foreign.judge import judge_foreign, quiet_window, stall_window
from airflow_streaming.core.foreign.tail import Tail
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.rules.rule import Severity
from airflow_streaming.core.verdict import VerdictState

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


def evidence(*queries: QueryEvidence, **changes: Any) -> ForeignEvidence:
    return ForeignEvidence(who="/ck/orders", now=NOON, queries=queries, **changes)


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


@pytest.mark.parametrize(("seen", "state", "rule"), CASES)
def test_every_evidence_has_the_verdict_of_the_table(
    seen: ForeignEvidence, state: str, rule: str | None
) -> None:
    verdict = judge_foreign(seen, RULES)

    assert (verdict.state, verdict.rule) == (state, rule)


def test_a_quiet_stream_is_told_to_be_unknown_and_what_would_tell() -> None:
    verdict = judge_foreign(evidence(query(quiet_for=60.0)), RULES)

    assert "waits for data and one that is dead look the same" in verdict.reason
    assert "metrics endpoint would tell" in verdict.reason
    assert verdict.since == NOON - timedelta(seconds=60)


def test_death_is_told_with_its_evidence() -> None:
    seen = evidence(query(quiet_for=9.0), endpoint=REFUSED, application=APP, refused_for=6.0)

    assert judge_foreign(seen, RULES).reason == (
        "The driver of application local-1 is gone: its metrics endpoint answered before and has "
        "refused connections for 6 s, and nothing was committed in that time; query 'orders' has "
        "committed batch 7."
    )


def test_a_stalled_batch_is_told_with_its_figures() -> None:
    verdict = judge_foreign(evidence(query(PLANNED, planned_for=61.0, quiet_for=99.0)), RULES)

    (finding,) = verdict.findings
    assert (finding.rule, finding.query, finding.figure, finding.bound) == (
        "stalled",
        "orders",
        61.0,
        60.0,
    )
    assert "Batch 8 of query 'orders' has been planned for 61 s" in verdict.reason


def every_evidence() -> list[ForeignEvidence]:
    """Return every combination of a few values of everything."""
    ages, found = (0.0, 4.0, 6.0, 70.0, 7000.0), []
    endpoints = (None, ANSWERED, WITHOUT_GAUGES, OF_ANOTHER, REFUSED, TIMED_OUT, UNREADABLE)
    values = product(
        (DONE, PLANNED, Tail(name="orders"), replace(DONE, unknown="v3.")),
        ages,
        ages,
        (True, False),
        (True, False, None),
        endpoints,
        (APP, None),
        ages,
    )
    for tail, quiet, age, fresh, gauge, endpoint, app, since in values:
        one = query(
            tail,
            quiet_for=quiet,
            planned_for=age if tail.planned is not None else None,
            fresh=fresh,
            has_gauge=gauge,
            gauge_lost_for=since if gauge is False else 0.0,
        )
        found.append(
            evidence(one, endpoint=endpoint, application=app, refused_for=since, changed_for=since)
        )
    return found


def test_laws_of_every_verdict() -> None:
    judged = [(seen, judge_foreign(seen, RULES)) for seen in every_evidence()]

    assert len(judged) > 40_000
    for seen, verdict in judged:
        endpoint, (one,) = seen.endpoint, seen.queries
        assert verdict.severity in (None, Severity.ALERT), "a foreign stream is never restarted"
        assert (verdict.severity is None) == (not verdict.findings)
        if verdict.state is VerdictState.DEAD:
            assert endpoint is not None
            assert endpoint.state is EndpointState.REFUSED
            assert seen.application is not None
        if verdict.state is VerdictState.FAILED:
            assert one.has_gauge is False
        if verdict.is_well:
            assert one.fresh or one.has_gauge, "what was only read is no sign of life"
            assert one.tail.unknown is None, "unknown never passes for well"
    assert {verdict.state for _, verdict in judged} >= {
        VerdictState.DEAD,
        VerdictState.FAILED,
        VerdictState.STALLED,
        VerdictState.SLOW,
        VerdictState.IDLE,
        VerdictState.HEALTHY,
        VerdictState.UNREACHABLE,
        VerdictState.DEGRADED,
    }


@pytest.mark.parametrize(
    ("durations", "seconds"),
    [((), 60), ((1.0, 1.0), 60), ((10.0, 4.0, 4.0), 120), ((100.0, 1.0, 1.0), 300)],
)
def test_the_stall_window_grows_with_recent_batches(
    durations: tuple[float, ...], seconds: int
) -> None:
    window = stall_window(replace(DONE, durations=durations), RULES)

    assert window == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [((), 60), ((5.0,), 60), ((60.0, 60.0, 60.0), 180), ((60.0, 60.0, 86_400.0), 180)],
    ids=["unknown", "short", "a batch a minute", "a day of downtime among them"],
)
def test_the_quiet_window_grows_with_the_usual_interval(
    intervals: tuple[float, ...], seconds: int
) -> None:
    window = quiet_window(replace(DONE, intervals=intervals), RULES)

    assert window == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("gauges", "is_only", "name"),
    [
        pytest.param({"e28f", "orders"}, True, "e28f", id="by its id"),
        pytest.param({"orders", "items"}, False, "orders", id="by the name of its folder"),
        pytest.param({"revenue"}, True, "revenue", id="the only one of the only checkpoint"),
        pytest.param({"revenue"}, False, None, id="of several checkpoints it may be any"),
        pytest.param({"revenue", "items"}, True, None, id="it may be either"),
        pytest.param(set(), True, None, id="there is none"),
    ],
)
def test_gauges_are_of_a_query_only_when_that_can_be_told(
    gauges: set[str], is_only: bool, name: str | None
) -> None:
    tail = replace(DONE, query_id="e28f")

    assert gauge_of(tail, frozenset(gauges), is_only=is_only) == name


def test_of_the_backlog_a_checkpoint_tells_nothing() -> None:
    sight = to_query_sight(replace(PLANNED, watermark=NOON, offsets=("12",), committed_at=NOON))

    assert (sight.batch_id, sight.planned_batch, sight.offsets) == (7, 8, ("12",))
    assert (sight.watermark, sight.committed_at) == (NOON, NOON)
    assert sight.backlog_records is sight.backlog_bytes is sight.backlog_files is None
