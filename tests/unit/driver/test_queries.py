from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring.activity import ActivitySnapshot, TriggerRun
from airflow_streaming.driver.monitoring.broker_reach import BrokerReach
from airflow_streaming.driver.monitoring.kafka_places import KafkaPlace
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.monitoring.spark_query import QueryError, has_run_a_batch
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.patience import until
from tests.unit.driver.fakes import BAD_ROW, FakeQuery, make_tracked, report


def test_every_batch_is_told_once_and_counted_from_the_first_seen() -> None:
    fake = FakeQuery()
    tracked = make_tracked(fake)
    assert tracked.poll() == []
    assert tracked.as_status().batches == 0

    fake.commit(17, 18)
    assert [row.progress.batch_id for row in tracked.poll()] == [17, 18]
    assert tracked.poll() == []
    fake.commit(19, 20, 21)
    assert [row.progress.batch_id for row in tracked.poll()] == [19, 20, 21]

    status = tracked.as_status()
    assert status.batches == 5
    assert status.progress is not None
    assert status.progress.batch_id == 21


def test_reports_that_were_dropped_in_between_still_count() -> None:
    fake = FakeQuery()
    tracked = make_tracked(fake)
    fake.commit(0)
    tracked.poll()
    fake.reports = [report(batch) for batch in range(500, 600)]
    assert len(tracked.poll()) == 100
    assert tracked.as_status().batches == 600


def test_a_look_that_found_nothing_is_no_batch_and_hides_none() -> None:
    fake = FakeQuery()
    tracked = make_tracked(fake)
    fake.commit(0)
    fake.reports.append(report(1, rows=0, ran=False))
    assert [row.progress.batch_id for row in tracked.poll()] == [0]
    fake.commit(1, rows=0)
    assert [row.progress.batch_id for row in tracked.poll()] == [1]
    assert tracked.as_status().batches == 2


@pytest.mark.parametrize(
    ("rows", "ran", "expected"),
    [
        pytest.param(5, True, True, id="data"),
        pytest.param(0, True, True, id="no data, but a watermark to move"),
        pytest.param(0, False, False, id="only looked"),
    ],
)
def test_a_batch_is_told_from_a_look(rows: int, ran: bool, expected: bool) -> None:
    assert has_run_a_batch(report(1, rows=rows, ran=ran)) is expected


def test_a_failed_query_names_the_batch_after_the_last_committed() -> None:
    fake, queries = FakeQuery(), Queries()
    tracked = make_tracked(fake)
    queries.add(tracked)
    fake.commit(3)
    queries.poll()
    fake.fail()
    queries.poll()

    assert queries.first_failed is tracked
    assert not queries.any_active
    assert tracked.error is not None
    assert tracked.error.batch_id == 4
    assert tracked.as_status().error == BAD_ROW.message


def test_one_that_fails_before_its_first_commit_reads_the_batch_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "41").touch()
    fake = FakeQuery()
    tracked = make_tracked(fake, folder=tmp_path)
    fake.fail()
    tracked.poll()
    assert tracked.error is not None
    assert tracked.error.batch_id == 41


def test_the_first_failure_stays_the_first() -> None:
    queries, fakes = Queries(), [FakeQuery(), FakeQuery()]
    for name, fake in zip("ab", fakes, strict=True):
        queries.add(make_tracked(fake, name=name))
    fakes[1].fail()
    queries.poll()
    fakes[0].fail()
    queries.poll()
    assert queries.first_failed is queries.named("b")


def test_a_progress_that_cannot_be_read_does_not_hide_a_failure() -> None:
    class Garbled(FakeQuery):
        def last_batch(self) -> int | None:
            raise ValueError("a progress of a later Spark")

    fake, queries = Garbled(), Queries()
    queries.add(make_tracked(fake))
    fake.fail()
    assert queries.poll() == []
    assert queries.first_failed is not None


def test_an_old_run_that_failed_is_remembered_when_the_script_starts_it_again() -> None:
    queries, old, new = Queries(), FakeQuery(), FakeQuery()
    queries.add(make_tracked(old))
    old.commit(0, 1)
    old.fail()
    queries.add(make_tracked(new))
    assert queries.first_failed is not None
    assert [row.progress.batch_id for row in queries.poll()] == [0, 1]


def test_a_message_of_spark_is_cut_and_masked_in_a_status() -> None:
    class Talkative(FakeQuery):
        def status(self) -> dict[str, object]:
            return {"message": "password=canary " + "x" * 5000}

    tracked = make_tracked(Talkative())
    tracked.poll()
    message = tracked.as_status().message
    assert message.startswith("password=(redacted) x")
    assert len(message) < 300


def test_the_offsets_of_the_batch_that_failed_are_named(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch, offset in ((3, 30), (4, 40)):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{offset}}}')
    fake = FakeQuery()
    tracked = make_tracked(fake, folder=tmp_path)
    fake.commit(3)
    tracked.poll()
    fake.fail()
    tracked.poll()
    assert tracked.error is not None
    assert tracked.error.offsets == ('{"logOffset":30} -> {"logOffset":40}',)


def test_a_status_tells_the_interval_and_the_last_twenty_durations() -> None:
    fake = FakeQuery()
    fake.interval = 30.0
    durations = [{"triggerExecution": number, "addBatch": 1} for number in range(30)]
    fake.reports = [{**report(n), "durationMs": told} for n, told in enumerate(durations)]
    tracked = make_tracked(fake)
    tracked.poll()
    status = tracked.as_status()
    assert status.processing_interval_s == 30.0
    assert status.recent_durations_ms == tuple(range(10, 30))


def test_the_batch_in_work_is_timed_from_beat_to_beat() -> None:
    fake, queries = FakeQuery(), Queries()
    tracked = make_tracked(fake)
    queries.add(tracked)
    fake.processing = True
    fake.commit(0)
    for at in (0.0, 2.0, 7.0):
        queries.poll()
        queries.time_work(ActivitySnapshot(at=at, cpu=0.0, jobs=()))
    status = tracked.as_status()
    assert (status.planned_batch, status.batch_for_s, status.quiet_for_s) == (1, 7.0, 7.0)
    assert (status.committed_ago_s, status.active_tasks) == (7.0, 0)

    fake.fail()
    queries.poll()
    queries.time_work(ActivitySnapshot(at=9.0))
    ended = tracked.as_status()
    assert (ended.planned_batch, ended.batch_for_s, ended.quiet_for_s) == (None, None, None)


def test_cpu_time_counts_for_the_only_query_in_work() -> None:
    fakes, queries = [FakeQuery(), FakeQuery()], Queries()
    for name, fake in zip("ab", fakes, strict=True):
        fake.processing = True
        queries.add(make_tracked(fake, name=name))
    for at in (0.0, 2.0):
        queries.poll()
        queries.time_work(ActivitySnapshot(at=at, cpu=at, jobs=()))
    assert [query.as_status().quiet_for_s for query in queries.all()] == [2.0, 2.0]
    fakes[0].processing = False
    for at in (4.0, 6.0):
        queries.poll()
        queries.time_work(ActivitySnapshot(at=at, cpu=at, jobs=()))
    assert [query.as_status().quiet_for_s for query in queries.all()] == [None, 0.0]


def test_a_trigger_that_cannot_be_read_disturbs_nothing() -> None:
    class Odd(FakeQuery):
        def trigger_interval(self) -> float | None:
            raise AttributeError("trigger")

        def trigger_run(self) -> TriggerRun:
            raise AttributeError("context")

    fake, queries = Odd(), Queries()
    fake.processing = True
    queries.add(make_tracked(fake))
    for at in (0.0, 2.0):
        fake.commit(int(at))
        assert len(queries.poll()) == 1
        queries.time_work(ActivitySnapshot(at=at, cpu=0.0, jobs=()))
    status = queries.all()[0].as_status()
    assert (status.processing_interval_s, status.batch_for_s) == (None, 2.0)


@pytest.mark.parametrize(
    ("text", "message", "exception_class"),
    [
        pytest.param(
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call "
            "last):\n  File\nValueError: b\n",
            "ValueError: b",
            "ValueError",
            id="a Python error",
        ),
        pytest.param(
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.\n\tat X",
            "Job aborted.",
            "SparkException",
            id="a Java error",
        ),
    ],
)
def test_an_error_is_told_by_its_innermost_cause(
    text: str, message: str, exception_class: str
) -> None:
    error = QueryError.from_text(text, exception_class="SparkException", condition="STREAM_FAILED")
    assert (error.message, error.exception_class) == (message, exception_class)
    assert error.conditions == ("STREAM_FAILED",)


def test_a_batch_that_is_reported_after_its_query_counts_as_stopped_is_seen() -> None:
    fake = FakeQuery()
    tracked = make_tracked(fake)
    fake.commit(0)
    fake.active = False
    assert [batch.progress.batch_id for batch in tracked.poll()] == [0]

    fake.commit(1)

    assert [batch.progress.batch_id for batch in tracked.poll()] == [1]
    assert tracked.poll() == []


PLACES = (KafkaPlace("topics a", ("one:9092",)),)


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (
            "ConnectException: Connection refused",
            FailureKind.UNREACHABLE,
            "No broker of topics a at one:9092 ",
        ),
        (
            "Something else",
            FailureKind.UNREACHABLE,
            "No broker of topics a at one:9092 accepts a connection (refused). Some",
        ),
        (
            "ConfigException: no smaller",
            FailureKind.CONFIGURATION,
            "ConfigException: no smaller (topics a at one:9092)",
        ),
        (
            "Partition a-0 offset was changed from 30 to 10.",
            FailureKind.INCOMPATIBLE,
            "Partition a-0 ends at offset 10",
        ),
        (
            "Traceback (most recent call last):\nValueError: x",
            FailureKind.USER_CODE,
            "ValueError: x",
        ),
    ],
)
def test_a_failure_that_brokers_may_have_caused_is_an_outage_where_they_refuse(
    said: str, kind: FailureKind, message: str
) -> None:
    text = f"Some data may have been lost. {said}" if "offset" in said else said
    fake = FakeQuery()
    queries, tracked = Queries(), make_tracked(fake, reach=BrokerReach(refuse))
    queries.add(tracked)
    queries.note_places(tracked.name, PLACES)
    queries.note_places("another", PLACES)
    fake.fail(QueryError.from_text(text, exception_class="X"))
    queries.poll()

    assert tracked.error is not None
    assert tracked.error.diagnosis is not None
    assert tracked.error.diagnosis.kind is kind
    assert tracked.error.message.startswith(message)
    assert ("one:9092" in tracked.error.message) == (kind is not FailureKind.USER_CODE)


def refuse(server: str) -> None:
    raise ConnectionRefusedError(111, "refused")


def test_a_query_that_asks_its_source_reports_the_refusal() -> None:
    class Asking(FakeQuery):
        def status(self) -> dict[str, object]:
            return {"message": "Getting offsets from KafkaV2[Subscribe[a]]"}

    now = [0.0]
    tracked = make_tracked(Asking(), reach=BrokerReach(refuse, lambda: now[0]))
    tracked.places = PLACES
    for now[0] in (0.0, 10.0):
        tracked.poll()
        tracked.time_work(ActivitySnapshot(at=now[0]), others=())
    until(lambda: tracked.as_status().refusal, "the refusal", seen=tracked.as_status)
    now[0] = 31.0

    assert tracked.as_status().refused_for_s == 31.0


def test_a_pause_is_no_time_of_the_batch_after_it() -> None:
    fake = FakeQuery()
    tracked = make_tracked(fake)
    fake.commit(1)
    tracked.poll()
    tracked.note_pause(None)
    tracked.note_pause(60.0)
    held = {**report(2, rows=40), "durationMs": {"triggerExecution": 60_200, "addBatch": 80}}
    fake.reports += [held, report(3)]

    found = [one.progress for one in tracked.poll()]

    assert [one.duration_ms for one in found] == [200, 120]
    assert found[0].processed_rows_per_second == 200.0
    assert tracked.as_status().recent_durations_ms == (120, 200, 120)


def test_a_held_query_has_no_batch_that_lasts() -> None:
    fake, none = FakeQuery(), ActivitySnapshot
    fake.processing = True
    tracked = make_tracked(fake)
    tracked.poll()
    for at in (0.0, 2.0, 4.0):
        tracked.time_work(none(at=at), others=())
    before = tracked.as_status()
    tracked.note_pause(None)
    for at in (6.0, 8.0, 900.0):
        tracked.time_work(none(at=at), others=())
    during = tracked.as_status()

    assert before.batch_for_s == 4.0
    assert (during.batch_for_s, during.committed_ago_s) == (
        before.batch_for_s,
        before.committed_ago_s,
    )
