"""What is announced of a stream, and that nothing is announced twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.supervision.readiness.asset_events import (
    LastSent,
    StreamEvent,
    announce,
    why_silent,
)
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.readiness.subject import EventType
from tests.unit.supervision.builders import minutes

HOUR = timedelta(hours=1)


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-21T{clock}+00:00")


def a_sight(state: VerdictState = VerdictState.HEALTHY, **changes: Any) -> StreamSnapshot:
    fields: dict[str, Any] = {
        "who": "stream 'orders'",
        "verdict": Verdict(state=state, reason="The test says so."),
        "epoch": 17,
        "fresh": True,
    }
    return StreamSnapshot(**fields | changes)


def a_query(name: str = "revenue", **changes: Any) -> QuerySnapshot:
    fields: dict[str, Any] = {"batch_id": 41, "committed_at": at("12:00:00")}
    return QuerySnapshot(name=name, **fields | changes)


def marked(*watermarks: str | None) -> StreamSnapshot:
    queries = (
        a_query(f"q{i}", watermark=None if mark is None else at(mark))
        for i, mark in enumerate(watermarks)
    )
    return a_sight(queries=tuple(queries))


def tell(sight: StreamSnapshot, told: LastSent, topic: EventType) -> StreamEvent | None:
    return announce(sight, told, topic=topic, every=HOUR)


def told_of(sights: list[StreamSnapshot], topic: EventType) -> list[dict[str, Any]]:
    """Return what is told of a history, with what was told kept as a database would."""
    told, payloads = LastSent(), []
    for sight in sights:
        announcement = tell(sight, told, topic)
        if announcement is not None:
            told = LastSent.from_dict(announcement.told.to_dict())
            payloads.append(announcement.payload)
            assert tell(sight, told, topic) is None, "the same sight is told once"
    assert [payload["sequence"] for payload in payloads] == list(range(1, len(payloads) + 1))
    return payloads


def test_a_watermark_is_told_when_it_completes_an_interval() -> None:
    marks = ["10:20:00", "10:59:59", "11:00:00", "11:30:00", "13:59:00", "09:00:00", "14:00:01"]

    told = told_of([marked(mark) for mark in marks], EventType.WATERMARK)

    assert [(p["complete_from"] or "-", p["complete_until"]) for p in told] == [
        ("-", "2026-11-21T10:00:00.000000+00:00"),
        ("2026-11-21T10:00:00.000000+00:00", "2026-11-21T11:00:00.000000+00:00"),
        ("2026-11-21T11:00:00.000000+00:00", "2026-11-21T13:00:00.000000+00:00"),
        ("2026-11-21T13:00:00.000000+00:00", "2026-11-21T14:00:00.000000+00:00"),
    ]
    assert told[0]["watermark"] == "2026-11-21T10:20:00.000000+00:00"
    assert (told[0]["epoch"], told[0]["batch_id"]) == (17, 41)
    assert (told[0]["topic"], told[0]["state"]) == ("watermark", "healthy")


def test_the_query_that_is_furthest_behind_counts() -> None:
    told = told_of([marked("11:10:00", "10:50:00"), marked("12:10:00", None)], EventType.WATERMARK)

    assert [(p["query"], p["complete_until"][11:16]) for p in told] == [("q1", "10:00")]


def test_only_the_named_query_counts() -> None:
    sight = marked("11:10:00", "10:50:00")

    announcement = announce(sight, LastSent(), topic=EventType.WATERMARK, every=HOUR, query="q0")

    assert announcement is not None
    assert announcement.payload["complete_until"][11:16] == "11:00"


def test_what_was_committed_is_told_of_a_stream_that_is_only_read() -> None:
    assert told_of([replace(marked("11:10:00"), fresh=False)], EventType.WATERMARK)


def test_a_query_without_a_watermark_does_not_hold_up_the_others() -> None:
    sight = marked("11:10:00")
    bare = a_query("raw", has_watermark=False)

    (told,) = told_of([replace(sight, queries=(bare, *sight.queries))], EventType.WATERMARK)

    assert (told["query"], told["complete_until"][:16]) == ("q0", "2026-11-21T11:00")


BARE = a_query("raw", has_watermark=False)
UNMOVED = a_query("new", has_watermark=True)


@pytest.mark.parametrize(
    ("queries", "asked", "expected"),
    [
        ((), {}, "No query of stream 'orders' is known yet."),
        ((BARE,), {}, "No checked query of stream 'orders' has a watermark ('raw')."),
        ((BARE, UNMOVED), {"query": "raw"}, "No checked query of stream 'orders'"),
        ((BARE, UNMOVED), {}, "No row has moved the watermark of query 'new' yet."),
        ((BARE, *marked("11:10:00").queries), {}, ""),
        ((BARE,), {"topic": EventType.BATCH}, ""),
        ((), {"topic": EventType.BATCH}, "No query of stream 'orders' is known yet."),
        ((), {"topic": EventType.STATE}, ""),
    ],
)
def test_silence_has_a_reason(
    queries: tuple[QuerySnapshot, ...], asked: dict[str, Any], expected: str
) -> None:
    reason = why_silent(a_sight(queries=queries), **{"topic": EventType.WATERMARK, **asked})

    assert reason.startswith(expected)
    assert bool(reason) == bool(expected)


def test_batches_are_told_no_more_often_than_asked() -> None:
    commits = [(1, "10:00:00"), (2, "10:59:59"), (3, "11:00:00"), (3, "11:00:00"), (4, "09:00:00")]
    sights = [
        a_sight(queries=(a_query(batch_id=batch, committed_at=at(clock)),))
        for batch, clock in commits
    ]

    told = told_of(sights, EventType.BATCH)

    assert [p["batch_id"] for p in told] == [1, 3, 4], "a clock that was set back does not silence"
    assert "complete_until" not in told[0]


@pytest.mark.parametrize(
    "sight",
    [a_sight(), a_sight(queries=(QuerySnapshot(name="new"),)), marked(None)],
    ids=["no query", "no batch", "no watermark"],
)
def test_what_is_not_known_is_not_told(sight: StreamSnapshot) -> None:
    assert tell(sight, LastSent(), EventType.WATERMARK) is None


def test_no_batch_is_no_news() -> None:
    assert tell(a_sight(queries=(QuerySnapshot(name="new"),)), LastSent(), EventType.BATCH) is None


V = VerdictState


def test_a_state_is_told_when_it_has_changed() -> None:
    history = [V.STARTING, V.IDLE, V.HEALTHY, V.IDLE, V.SLOW, V.DEAD, V.STARTING, V.HEALTHY]

    told = told_of([a_sight(state) for state in history], EventType.STATE)

    assert [(p["previous"], p["state"]) for p in told] == [
        (None, "idle"),
        ("healthy", "slow"),
        ("slow", "dead"),
        ("dead", "healthy"),
    ]


def test_a_triggerer_that_knows_nothing_yet_does_not_call_a_hung_stream_healthy() -> None:
    told = LastSent(sequence=3, state="hung")

    assert tell(a_sight(fresh=False), told, EventType.STATE) is None
    assert tell(a_sight(V.HUNG, fresh=False), told, EventType.STATE) is None


def test_a_state_names_the_rule_and_the_query_it_is_about() -> None:
    verdict = Verdict(state=V.STALLED, reason="Stands still.", rule="stalled", query="raw")

    (payload,) = told_of([a_sight(verdict=verdict)], EventType.STATE)

    assert (payload["rule"], payload["query"], payload["reason"]) == (
        "stalled",
        "raw",
        "Stands still.",
    )


def test_intervals_of_any_length_begin_in_1970() -> None:
    sight = marked("10:20:00")

    announcement = announce(sight, LastSent(), topic=EventType.WATERMARK, every=minutes(7))

    assert announcement is not None
    until = datetime.fromisoformat(announcement.payload["complete_until"])
    assert until.timestamp() % 420 == 0
    assert until <= at("10:20:00") < until + minutes(7)


def test_a_lane_is_told_when_it_or_its_output_becomes_live() -> None:
    places = [
        ("orders", "/lake/blue"),
        ("orders", "/lake/blue"),
        ("orders.green", "/lake/green"),
        ("orders.green", "/lake/other"),
        ("orders", "/lake/other"),
    ]

    told = told_of([a_sight(lane=lane, output=output) for lane, output in places], EventType.LIVE)

    assert [(p["color"], p["output"], p["previous_lane"], p["previous_output"]) for p in told] == [
        ("blue", "/lake/blue", None, None),
        ("green", "/lake/green", "orders", "/lake/blue"),
        ("green", "/lake/other", "orders.green", "/lake/green"),
        ("blue", "/lake/other", "orders.green", "/lake/other"),
    ]


@pytest.mark.parametrize(
    "sight",
    [
        pytest.param(a_sight(), id="a foreign stream"),
        pytest.param(a_sight(lane="orders"), id="a stream without a deployment"),
    ],
)
def test_no_lane_is_told_of_what_has_none(sight: StreamSnapshot) -> None:
    assert told_of([sight], EventType.LIVE) == []
