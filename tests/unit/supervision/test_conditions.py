"""A gate opens on data that is there, and says what is missing while it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.model.progress import is_at_least
from airflow_streaming.supervision.readiness.conditions import catch_up, gate
from airflow_streaming.supervision.readiness.pause import Pause
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, StreamSnapshot
from airflow_streaming.supervision.readiness.subject import BacklogUnit, Condition, ReadinessState
from tests.unit.supervision.builders import NOW, minutes, seconds

HEALTHY = Verdict(
    state=VerdictState.HEALTHY, reason="1 of 1 queries active.", healthy_for=minutes(9)
)
STALLED = Verdict(
    state=VerdictState.STALLED, reason="Batch 7 stands still.", healthy_for=minutes(9)
)
REVENUE = QuerySnapshot(
    name="revenue",
    batch_id=41,
    committed_at=NOW - seconds(5),
    watermark=NOW - minutes(10),
    offsets=('{"logOffset":41}',),
    backlog_records=100.0,
    backlog_seconds=3.0,
)
RAW = QuerySnapshot(name="raw")
BARE = replace(RAW, has_watermark=False)
SIGHT = StreamSnapshot(who="stream 'orders'", verdict=HEALTHY, queries=(REVENUE,), fresh=True)


def seen(**changes: Any) -> StreamSnapshot:
    return replace(SIGHT, **changes)


READY, WAITING, LOST = ReadinessState.READY, ReadinessState.WAITING, ReadinessState.LOST
STOPPED = 'Desired state is "stopped".'

TABLE: dict[str, tuple[StreamSnapshot, dict[str, Any], ReadinessState, str]] = {
    "nothing asked of a known query": (SIGHT, {}, READY, "revenue at batch 41"),
    "no query is known": (seen(queries=()), {}, WAITING, "No query of stream 'orders' is known"),
    "another query is asked": (
        SIGHT,
        {"query": "raw"},
        WAITING,
        "No query 'raw' in stream 'orders'; known queries: revenue",
    ),
    "well for long enough": (SIGHT, {"healthy_for": minutes(9)}, READY, "revenue"),
    "well, but not for long": (SIGHT, {"healthy_for": minutes(10)}, WAITING, "9 min of 10 min"),
    "not well": (seen(verdict=STALLED), {"healthy_for": minutes(1)}, WAITING, "stands still"),
    "only read": (seen(fresh=False), {"healthy_for": minutes(1)}, WAITING, "sign of life"),
    "never well again": (seen(lost=STOPPED), {"healthy_for": minutes(1)}, LOST, STOPPED),
    "the batch is committed": (SIGHT, {"batch": 41}, READY, "batch 41"),
    "the batch is not": (SIGHT, {"batch": 42}, WAITING, "batch 42; its newest is 41"),
    "no batch at all": (seen(queries=(RAW,)), {"batch": 0}, WAITING, "its newest is none yet"),
    "every query has to have it": (seen(queries=(REVENUE, RAW)), {"batch": 1}, WAITING, "'raw'"),
    "only the one asked": (
        seen(queries=(REVENUE, RAW)),
        {"batch": 1, "query": "revenue"},
        READY,
        "revenue",
    ),
    "data is there of a stopped stream": (seen(lost=STOPPED), {"batch": 41}, READY, "batch 41"),
    "data will never come": (seen(lost=STOPPED), {"batch": 42}, LOST, f"newest is 41. {STOPPED}"),
    "a stop that is tolerated": (
        seen(lost=STOPPED, pause=Pause(lasts=minutes(5))),
        {"batch": 42, "tolerate_stop": minutes(6)},
        WAITING,
        f"newest is 41. {STOPPED} The stop has lasted 5 min of 6 min.",
    ),
    "a stop that is tolerated no longer": (
        seen(lost=STOPPED, pause=Pause(lasts=minutes(6))),
        {"batch": 42, "tolerate_stop": minutes(6)},
        LOST,
        STOPPED,
    ),
    "well again after a stop that is tolerated": (
        seen(lost=STOPPED, pause=Pause(lasts=minutes(5))),
        {"healthy_for": minutes(1), "tolerate_stop": minutes(6)},
        WAITING,
        STOPPED,
    ),
    "a circuit is no stop": (
        seen(lost="The circuit is open."),
        {"batch": 42, "tolerate_stop": minutes(6)},
        LOST,
        "The circuit is open.",
    ),
    "committed since": (SIGHT, {"committed_since": NOW - seconds(5)}, READY, "revenue"),
    "not since": (SIGHT, {"committed_since": NOW}, WAITING, "has committed nothing since"),
    "never": (seen(queries=(RAW,)), {"committed_since": NOW}, WAITING, "last: never"),
    "the watermark is past": (SIGHT, {"watermark": NOW - minutes(10)}, READY, "watermark"),
    "the watermark is not": (
        SIGHT,
        {"watermark": NOW},
        WAITING,
        "The watermark of query 'revenue'",
    ),
    "no watermark is known": (
        seen(queries=(RAW,)),
        {"watermark": NOW},
        WAITING,
        "Query 'raw' has no watermark, or none yet.",
    ),
    "a query without a watermark does not count": (
        seen(queries=(BARE, REVENUE)),
        {"watermark": NOW - minutes(10)},
        READY,
        "watermark",
    ),
    "no query has a watermark": (
        seen(queries=(BARE, replace(BARE, name="late"))),
        {"watermark": NOW},
        LOST,
        "No checked query of stream 'orders' has a watermark ('raw', 'late').",
    ),
    "the query that is named has none": (
        seen(queries=(BARE, REVENUE)),
        {"watermark": NOW, "query": "raw"},
        LOST,
        "withWatermark()",
    ),
    "no row has moved the watermark": (
        seen(queries=(BARE, replace(RAW, has_watermark=True))),
        {"watermark": NOW},
        WAITING,
        "No row has moved the watermark of query 'raw' yet.",
    ),
    "one may have a watermark": (
        seen(queries=(BARE, replace(RAW, name="new"))),
        {"watermark": NOW},
        WAITING,
        "Query 'new' has no watermark, or none yet.",
    ),
    "backlog below": (SIGHT, {"backlog_below": 101.0}, READY, "revenue"),
    "backlog on the bound": (SIGHT, {"backlog_below": 100.0}, WAITING, "is 100 records, not below"),
    "backlog unknown": (
        SIGHT,
        {"backlog_below": 1.0, "backlog_unit": BacklogUnit.FILES},
        WAITING,
        "in files is not known",
    ),
    "backlog in seconds": (
        SIGHT,
        {"backlog_below": 4.0, "backlog_unit": BacklogUnit.SECONDS},
        READY,
        "revenue",
    ),
    "backlog of a status that may be old": (
        seen(fresh=False),
        {"backlog_below": 101.0},
        WAITING,
        "is not known. Waiting to see a sign of life.",
    ),
    "backlog of a stream that stands still": (
        seen(verdict=STALLED),
        {"backlog_below": 101.0},
        WAITING,
        "is not known. Batch 7 stands still.",
    ),
    "backlog of a stopped stream": (
        seen(fresh=False, lost=STOPPED),
        {"backlog_below": 101.0},
        LOST,
        STOPPED,
    ),
    "never run and wanted stopped": (
        seen(queries=(), lost=STOPPED),
        {"batch": 0},
        LOST,
        f"No query of stream 'orders' is known yet. {STOPPED}",
    ),
    "own offsets not known": (
        seen(queries=(RAW,)),
        {"caught_up_with": ("1",)},
        WAITING,
        "The offsets of query 'raw' are not known",
    ),
    "caught up": (SIGHT, {"caught_up_with": ('{"logOffset":40}',)}, READY, "revenue"),
    "not caught up": (SIGHT, {"caught_up_with": ('{"logOffset":42}',)}, WAITING, "other stream at"),
    "other sources": (SIGHT, {"caught_up_with": ()}, WAITING, "cannot be compared"),
    "other words": (SIGHT, {"caught_up_with": ("x",)}, WAITING, "cannot be compared"),
}


@pytest.mark.parametrize(("sight", "asked", "state", "words"), TABLE.values(), ids=TABLE.keys())
def test_a_gate_answers_as_the_table_says(
    sight: StreamSnapshot, asked: dict[str, Any], state: ReadinessState, words: str
) -> None:
    readiness = gate(sight, Condition(**asked))

    assert readiness.state is state
    assert words in readiness.reason


@pytest.mark.parametrize("asked", [row[1] for row in TABLE.values()], ids=TABLE.keys())
def test_a_condition_survives_the_way_through_a_database(asked: dict[str, Any]) -> None:
    condition = Condition(**asked)

    assert Condition.from_dict(condition.to_dict()) == condition


def test_a_part_of_a_condition_that_is_not_known_here_is_not_passed_over() -> None:
    with pytest.raises(RecordError, match="does not know phase_of_the_moon"):
        Condition.from_dict({"batch": 1, "phase_of_the_moon": "full"})


def others(*queries: QuerySnapshot) -> StreamSnapshot:
    return StreamSnapshot(who="s3://lake/checkpoint", verdict=STALLED, queries=queries)


CATCHING_UP: dict[
    str, tuple[StreamSnapshot, StreamSnapshot, dict[str, Any], ReadinessState, str]
] = {
    "as far": (SIGHT, others(REVENUE), {}, READY, "caught up with s3://lake/checkpoint"),
    "single queries of other names": (
        SIGHT,
        others(replace(REVENUE, name="checkpoint")),
        {},
        READY,
        "caught up",
    ),
    "behind": (
        SIGHT,
        others(replace(REVENUE, offsets=('{"logOffset":42}',))),
        {},
        WAITING,
        "the other stream at",
    ),
    "behind and stopped": (
        seen(lost=STOPPED),
        others(replace(REVENUE, offsets=('{"logOffset":42}',))),
        {},
        LOST,
        STOPPED,
    ),
    "the other one knows nothing": (SIGHT, others(RAW), {}, WAITING, "'raw' of s3://lake"),
    "the other one has another query": (
        SIGHT,
        others(RAW, replace(RAW, name="late")),
        {},
        WAITING,
        "No query 'revenue' in s3://lake/checkpoint to compare with; known queries: raw, late.",
    ),
    "each with its own": (
        seen(queries=(REVENUE, replace(REVENUE, name="raw", offsets=("7",)))),
        others(replace(REVENUE, name="raw", offsets=("8",)), REVENUE),
        {},
        WAITING,
        "Query 'raw' is at 7, the other stream at 8.",
    ),
    "only the one asked": (
        seen(queries=(REVENUE, replace(REVENUE, name="raw", offsets=("7",)))),
        others(replace(REVENUE, name="raw", offsets=("8",)), REVENUE),
        {"query": "revenue"},
        READY,
        "revenue at batch 41",
    ),
    "something else is missing": (SIGHT, others(REVENUE), {"batch": 42}, WAITING, "batch 42"),
}


@pytest.mark.parametrize(
    ("sight", "other", "asked", "state", "words"), CATCHING_UP.values(), ids=CATCHING_UP.keys()
)
def test_who_has_caught_up_and_who_has_not(
    sight: StreamSnapshot,
    other: StreamSnapshot,
    asked: dict[str, Any],
    state: ReadinessState,
    words: str,
) -> None:
    readiness = catch_up(sight, other, Condition(**asked))

    assert readiness.state is state
    assert words in readiness.reason


@pytest.mark.parametrize(
    ("mine", "other", "ahead"),
    [
        ('{"t":{"0":5,"1":7}}', '{"t":{"0":5,"1":7}}', True),
        ('{"t":{"0":6,"1":7}}', '{"t":{"0":5,"1":7}}', True),
        ('{"t":{"0":6,"1":6}}', '{"t":{"0":5,"1":7}}', False),
        ('{"t":{"0":6,"1":1}}', '{"t":{"0":5}}', True),
        ('{"t":{"0":6}}', '{"t":{"0":5,"1":0}}', True),
        ('{"t":{"0":6}}', '{"t":{"0":5,"1":3}}', False),
        ('{"t":{"0":6}}', '{"u":{"0":5}}', False),
        ('{"logOffset":3}', '{"logOffset":3, "x":0}', True),
        ("17", "16", True),
        ("15", "16", False),
        ("1.5", "1", True),
        ("same words", "same words", True),
        ("some words", "other words", None),
        ("true", "1", None),
        ('{"at":"2026"}', '{"at":"2025"}', None),
        ("[1]", "[0]", None),
        ("-", "3", None),
        ("[" * 100_000, "3", None),
    ],
)
def test_offsets_are_ordered_where_they_can_be(mine: str, other: str, ahead: bool | None) -> None:
    assert is_at_least(mine, other) is ahead
