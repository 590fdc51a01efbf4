"""Evidence of a stream that we did not launch, and what it means."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from airflow_streaming.model.health_rules import Severity
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.spark.tail import Tail
from airflow_streaming.supervision.external.endpoint_reply import EndpointState
from airflow_streaming.supervision.external.judge import (
    ExternalEvidence,
    gauge_of,
    judge_external,
    quiet_window,
    stall_window,
    to_query_sight,
)
from tests.unit.supervision.foreign_cases import (
    ANSWERED,
    APP,
    CASES,
    DONE,
    NOON,
    OF_ANOTHER,
    PLANNED,
    REFUSED,
    RULES,
    TIMED_OUT,
    UNREADABLE,
    WITHOUT_GAUGES,
    evidence,
    query,
)


@pytest.mark.parametrize(("seen", "state", "rule"), CASES)
def test_every_evidence_has_the_verdict_of_the_table(
    seen: ExternalEvidence, state: str, rule: str | None
) -> None:
    verdict = judge_external(seen, RULES)

    assert (verdict.state, verdict.rule) == (state, rule)


def test_a_quiet_stream_is_told_to_be_unknown_and_what_would_tell() -> None:
    verdict = judge_external(evidence(query(quiet_for=60.0)), RULES)

    assert "an idle query and a dead one look the same" in verdict.reason
    assert "metrics endpoint would tell" in verdict.reason
    assert verdict.since == NOON - timedelta(seconds=60)


def test_death_is_told_with_its_evidence() -> None:
    seen = evidence(query(quiet_for=9.0), endpoint=REFUSED, application=APP, refused_for=6.0)

    assert judge_external(seen, RULES).reason == (
        "The driver of application local-1 is gone: its metrics endpoint answered before and has "
        "refused connections for 6 s, and nothing was committed in that time; query 'orders' has "
        "committed batch 7."
    )


def test_a_stalled_batch_is_told_with_its_figures() -> None:
    verdict = judge_external(evidence(query(PLANNED, planned_for=61.0, quiet_for=99.0)), RULES)

    (finding,) = verdict.findings
    assert (finding.rule, finding.query, finding.figure, finding.bound) == (
        "stalled",
        "orders",
        61.0,
        60.0,
    )
    assert "Batch 8 of query 'orders' has been planned for 61 s" in verdict.reason


def every_evidence() -> list[ExternalEvidence]:
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
    judged = [(seen, judge_external(seen, RULES)) for seen in every_evidence()]

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
