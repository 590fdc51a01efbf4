"""What a situation tells of a stream, and that a gate on its health takes it as it should."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.progress import MAX_OFFSET, SourceProgress
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.status import Status
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.readiness.conditions import gate
from airflow_streaming.supervision.readiness.snapshot import QuerySnapshot, lacks_progress, sight_of
from airflow_streaming.supervision.readiness.subject import Condition, Readiness, ReadinessState
from tests.unit.supervision.builders import (
    EPOCH,
    a_batch,
    a_circuit,
    a_deployment,
    a_query,
    a_situation,
    a_status,
    an_epoch,
    an_exit,
    minutes,
    observed,
)

SEEN: Final = observed(beating=True)
IDLE: Final = a_query(processing=False, data_available=False)


def of_health(situation: ReconcileInput, healthy_for: timedelta) -> Readiness:
    return gate(sight_of(situation, "stream 'orders'"), Condition(healthy_for=healthy_for))


TABLE: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "healthy and beating": ({}, "ready", "revenue at batch 41"),
    "idle and beating": (
        {"seen": observed(beating=True, status=a_status(queries=(IDLE,)))},
        "ready",
        "revenue at batch 41",
    ),
    "healthy by a status that may be old": ({"seen": observed()}, "waiting", "a sign of life."),
    "never run": ({"seen": None}, "waiting", "The stream has never run."),
    "starting": (
        {"seen": observed(status=None, beating=True)},
        "waiting",
        "Driver of epoch 17 is starting Spark.",
    ),
    "failed, to be restarted": (
        {"seen": observed(ProcessState.GONE, exit=an_exit())},
        "waiting",
        "Driver of epoch 17 ended",
    ),
    "wanted stopped, though still healthy": (
        {"desired": DesiredState.STOPPED},
        "lost",
        'Desired state is "stopped".',
    ),
    "circuit open": ({"circuit": a_circuit()}, "lost", "The circuit is open: The disk was full."),
    "circuit open before the first epoch": (
        {"circuit": a_circuit(), "seen": None},
        "lost",
        "The circuit is open: The disk was full.",
    ),
    "circuit closed": ({"circuit": a_circuit(CircuitState.CLOSED)}, "ready", "batch 41"),
    "circuit half-open and its trial healthy": (
        {"circuit": a_circuit(epoch=EPOCH - 1)},
        "ready",
        "batch 41",
    ),
}


@pytest.mark.parametrize(("changes", "state", "words"), TABLE.values(), ids=TABLE.keys())
def test_a_gate_on_health(changes: dict[str, Any], state: str, words: str) -> None:
    readiness = of_health(a_situation(**{"seen": SEEN} | changes), minutes(5))

    assert readiness.state == state
    assert words in readiness.reason


def test_the_table_reaches_every_state() -> None:
    assert {state for _, state, _ in TABLE.values()} == {state.value for state in ReadinessState}


@pytest.mark.parametrize(
    ("healthy_for", "state"), [(0, "ready"), (50, "ready"), (51, "waiting")], ids=str
)
def test_it_has_to_be_well_for_long_enough(healthy_for: int, state: str) -> None:
    # The builder's stream made its first progress fifty minutes ago.
    readiness = of_health(a_situation(seen=SEEN), minutes(healthy_for))

    assert readiness.state == state
    if state == "waiting":
        assert readiness.reason.startswith("Healthy for 50 min of 51 min.")


def query_of(**batch: Any) -> QuerySnapshot:
    status = a_status(queries=(a_query(progress=a_batch(**batch), planned_batch=42),))
    (query,) = sight_of(a_situation(seen=observed(status=status)), "orders").queries
    return query


def source(**figures: Any) -> SourceProgress:
    return SourceProgress(source="KafkaV2[orders]", **figures)


def test_a_batch_is_committed_when_it_ends_by_the_drivers_own_clock() -> None:
    query = query_of(at="2026-11-21T11:59:58.000Z", duration_ms=2_020)

    assert (query.batch_id, query.planned_batch) == (41, 42)
    assert query.committed_at == datetime.fromisoformat("2026-11-21T12:00:00.020+00:00")


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ("2026-11-21T11:00:00.000Z", "2026-11-21T11:00:00+00:00"),
        ("2026-11-21T12:00:00.000+01:00", "2026-11-21T11:00:00+00:00"),
        ("1970-01-01T00:00:00.000Z", None),
        ("tomorrow", None),
        ("0001-01-01T00:00:00+14:00", None),
        (None, None),
    ],
)
def test_a_watermark_that_no_row_has_moved_is_none(told: str | None, known: str | None) -> None:
    mark = query_of(watermark=told).watermark

    assert (mark and mark.isoformat()) == known


@pytest.mark.parametrize(
    ("told", "has_one"),
    [("2026-11-21T11:00:00.000Z", True), ("1970-01-01T00:00:00.000Z", True), (None, False)],
)
def test_spark_names_the_watermark_of_each_query_that_has_one(
    told: str | None, has_one: bool
) -> None:
    assert query_of(watermark=told).has_watermark is has_one


@pytest.mark.parametrize(
    ("backlogs", "total"),
    [((3.0, 4.0), 7.0), ((3.0, None), None), ((0.0,), 0.0), ((), None)],
    ids=["every source tells", "one does not", "nothing left", "no source"],
)
def test_a_backlog_is_a_sum_only_where_every_source_tells(
    backlogs: tuple[float | None, ...], total: float | None
) -> None:
    sources = tuple(source(backlog_records=n, backlog_bytes=n, backlog_files=n) for n in backlogs)
    query = query_of(sources=sources)

    assert (query.backlog_records, query.backlog_bytes, query.backlog_files) == (total,) * 3


@pytest.mark.parametrize(
    ("records", "rate", "seconds"),
    [(990.0, 99.0, 10.0), (0.0, None, 0.0), (5.0, None, None), (5.0, 0.0, None)],
)
def test_a_backlog_in_seconds_is_records_over_the_rate_of_processing(
    records: float, rate: float | None, seconds: float | None
) -> None:
    query = query_of(sources=(source(backlog_records=records),), processed_rows_per_second=rate)

    assert query.backlog_seconds == seconds


@pytest.mark.parametrize(
    ("ends", "offsets"),
    [
        (('{"orders":{"0":7}}', "3"), ('{"orders":{"0":7}}', "3")),
        (("3", None), ()),
        (("3", "9" * MAX_OFFSET), ()),
    ],
    ids=["known", "one is not", "one was cut"],
)
def test_offsets_are_known_in_full_or_not_at_all(
    ends: tuple[str | None, ...], offsets: tuple[str, ...]
) -> None:
    assert query_of(sources=tuple(source(end_offset=end) for end in ends)).offsets == offsets


def test_a_query_without_a_batch_is_known_by_its_name_alone() -> None:
    status = a_status(queries=(a_query(progress=None),))

    (query,) = sight_of(a_situation(seen=observed(status=status)), "orders").queries

    assert query == QuerySnapshot(name="revenue")


EARLIER: Final = a_status(
    epoch=EPOCH - 1,
    queries=(
        a_query(
            progress=a_batch(
                watermark="2026-11-21T11:00:00Z",
                sources=(source(end_offset="7", backlog_records=9.0),),
            )
        ),
    ),
)


@pytest.mark.parametrize(
    "status",
    [None, a_status(queries=()), a_status(queries=(a_query(progress=None),))],
    ids=["no status", "no query yet", "no batch yet"],
)
def test_a_restarted_driver_does_not_undo_what_was_committed(status: Status | None) -> None:
    assert lacks_progress(status)

    sight = sight_of(a_situation(seen=observed(status=status)), "orders", earlier=EARLIER)

    (query,) = sight.queries
    assert (query.batch_id, query.offsets, query.backlog_records) == (41, ("7",), None)
    assert gate(sight, Condition(batch=41)).state is ReadinessState.READY


def test_a_query_with_another_checkpoint_has_committed_nothing() -> None:
    status = a_status(queries=(a_query(progress=None, id="another"),))

    sight = sight_of(a_situation(seen=observed(status=status)), "orders", earlier=EARLIER)

    assert sight.queries == (QuerySnapshot(name="revenue"),)


@pytest.mark.parametrize(("deployment", "is_known"), [(3, True), (4, False)])
def test_what_an_earlier_deployment_read_is_not_read_by_a_restored_one(
    deployment: int, is_known: bool
) -> None:
    read = source(read_until="2026-11-21T12:00:00+00:00")
    status = a_status(queries=(a_query(progress=a_batch(sources=(read,))),))
    seen = observed(status=status, epoch=an_epoch(deployment=3))
    situation = a_situation(seen=seen, deployment=a_deployment(number=deployment))

    (query,) = sight_of(situation, "orders").queries

    assert (query.read_until is not None) is is_known
    assert query.batch_id == 41
