"""Examples are killed in the middle, and continue as another version that the change gate accepts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.testing import StreamTester, compare_rows
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines import (
    test_clickstream,
    test_fraud,
    test_iot,
    test_kafka,
    test_small,
    test_upsert,
)
from tests.integration.pipelines.conftest import Feeding
from tests.integration.pipelines.killed import Example, Run, Version
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.patience import PATIENCE
from tests.system.edits.trial import PLAN_PROGRAM, Spark

ONE_FILE: Final = ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2')
TWO_FILES: Final = ('"maxFilesPerTrigger", 2', '"maxFilesPerTrigger", 3')
TABLE: Final = ("--input", "{run}/in", "--database", "{run}/out.db")
ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG: Final = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}

ACCEPTED: Final = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)

pytestmark = [
    pytest.mark.usefixtures("has_pandas"),
    pytest.mark.nightly("A Spark is killed and started for each example."),
]


def of_iot(run: Run) -> None:
    for name, expected in {
        "counts": test_iot.expected_counts(),
        "alerts": test_iot.expected_alerts(),
    }.items():
        assert expected
        assert not compare_rows(run.rows(name), expected, [*expected[0]])


def of_clickstream(run: Run) -> None:
    files = run.example.files
    found, expected = run.rows("attributed"), test_clickstream.pairs(files)
    assert not compare_rows(found, expected, ("view_id", "click_id", "product"))
    closed = max(at for at, _ in test_clickstream.events(files).values()) - timedelta(hours=1)
    batch = run.batch("sessions")
    sessions = [row for row in batch if datetime.fromisoformat(row["end"]) <= closed]
    assert len(sessions) > 5
    assert not compare_rows(run.rows("sessions"), sessions, [*sessions[0]])


def of_fraud(run: Run) -> None:
    expected = test_fraud.frauds(test_fraud.payments(range(run.example.files)))
    assert len(expected) > 5
    assert not compare_rows(run.table("alerts"), expected, test_fraud.COLUMNS)
    run.numbers_are_whole()


def of_social(run: Run) -> None:
    expected = test_small.trends(run.batch("trends"), run.example.files)
    assert len(expected) > 10
    assert not compare_rows(run.rows(), expected, test_small.TREND)


def of_upsert(run: Run) -> None:
    found = [{**row, "closed": bool(row["closed"])} for row in run.table("accounts")]
    assert not compare_rows(found, test_upsert.newest(range(run.example.files)))
    run.numbers_are_whole()


def of_hours(run: Run) -> None:
    expected = test_small.hours(run.example.files)
    assert expected
    assert not compare_rows(run.rows(), expected)


def of_schema(run: Run) -> None:
    test_small.check_orders(run.tester, run.output, run.example.files)


def of_scoring(run: Run) -> None:
    found = run.rows()
    sent = [row for n in range(run.example.files) for row in parsed(FEEDS["sensors"].lines(n))]
    assert not compare_rows(found, [{"id": row["id"]} for row in sent], ("id",))
    assert {row["model"] for row in found} == {"first", "second"}
    first = {(row["id"], row["score"]) for row in run.batch("scores")}
    assert {(r["id"], r["score"]) for r in found if r["model"] == "first"} <= first


IOT: Final = "iot/jobs/iot_sensors.py"
EXAMPLES: Final[Mapping[str, Example]] = {
    "iot": Example(
        script=IOT,
        feed="sensors",
        query="counts",
        files=test_iot.FILES,
        upgrade=Version(
            changes=(
                (
                    '"device", "readings", "hottest")',
                    '"device", "readings", "hottest", (F.col("hottest") / 1000).alias("celsius"))',
                ),
            )
        ),
        refused=(
            Version(changes=(('window = F.window("ts", "10', 'window = F.window("ts", "20'),)),
        ),
        check=of_iot,
    ),
    "efficiency": Example(
        script=IOT,
        feed="sensors",
        query="counts",
        files=test_iot.FILES,
        conf=ROCKSDB,
        upgrade=Version(conf=CHANGELOG),
        check=of_iot,
    ),
    "clickstream": Example(
        script="clickstream/jobs/clickstream.py",
        feed="clicks",
        query="attributed",
        files=12,
        arguments=("--products", "{run}/products", "--trigger-seconds", "0"),
        upgrade=Version(
            changes=(
                (
                    '            "events",\n            F.slice',
                    '            "events",\n            (F.col("events") > 5).alias("busy"),\n            F.slice',
                ),
            )
        ),
        refused=(Version(changes=(('GAP = "30', 'GAP = "20'),)),),
        check=of_clickstream,
    ),
    "fraud": Example(
        script="fraud/jobs/fraud_alerts.py",
        feed="payments",
        query="alerts",
        files=test_fraud.FILES,
        upgrade=Version(changes=(ONE_FILE,)),
        check=of_fraud,
        py_files=("fraud_rule.py",),
        places=TABLE,
    ),
    "social": Example(
        script="social/jobs/social_trends.py",
        feed="mentions",
        query="trends",
        files=18,
        per_batch=2,
        upgrade=Version(changes=(TWO_FILES,)),
        check=of_social,
    ),
    "schema_evolution": Example(
        script="schema_evolution/jobs/orders.py",
        feed="orders",
        query="totals",
        files=14,
        per_batch=2,
        upgrade=Version(arguments=("--version", "2")),
        refused=(
            Version(arguments=("--version", "3")),
            Version(arguments=("--version", "4")),
        ),
        check=of_schema,
    ),
    "scoring": Example(
        script="scoring/jobs/score_readings.py",
        feed="sensors",
        query="scores",
        files=10,
        per_batch=2,
        arguments=("--model", "{run}/models/first", "--trigger-seconds", "0"),
        upgrade=Version(arguments=("--model", "{run}/models/second")),
        check=of_scoring,
    ),
    "upsert": Example(
        script="upsert/jobs/account_balances.py",
        feed="accounts",
        query="balances",
        files=8,
        upgrade=Version(changes=(ONE_FILE,)),
        check=of_upsert,
        places=TABLE,
    ),
    "triggers": Example(
        script="triggers/jobs/clicks_per_hour.py",
        feed="clicks",
        query="hours",
        files=12,
        per_batch=2,
        arguments=(),
        upgrade=Version(changes=(TWO_FILES,)),
        check=of_hours,
    ),
}


def of_kafka(run: Run) -> None:
    expected = Counter(test_kafka.sent("clicks", range(run.example.files)))
    found = consume(run.broker, "events", expected.total(), within=PATIENCE)
    # A batch that was in work at the kill is sent again with the same keys.
    assert Counter({m.key: m.value["id"] for m in found}.values()) == expected


KAFKA: Final = Example(
    script="kafka_to_kafka/jobs/route_events.py",
    feed="clicks",
    query="routed",
    files=6,
    places=("--servers", "{broker}", "--topics", "clicks", "--into", "events"),
    arguments=("--connector", "python_kafka", "--max-offsets", "20"),
    upgrade=Version(arguments=("--max-offsets", "500")),
    refused=(Version(arguments=("--topics", "payments")),),
    check=of_kafka,
    py_files=("python_kafka.py",),
)


@pytest.fixture(scope="module")
def planning(spark_4_3: Path, dags: Path) -> Iterator[Spark]:
    """One Spark that makes the plans of all versions."""
    with pytest.MonkeyPatch.context() as patch:
        modules = [str(dags / name / "jobs") for name in ("fraud", "kafka_to_kafka")]
        patch.setenv("PYTHONPATH", os.pathsep.join(modules))
        with Spark(spark_4_3, PLAN_PROGRAM) as spark:
            yield spark


@pytest.fixture
def run(
    example: Example,
    stream_tester: StreamTester,
    planning: Spark,
    feed: Feeding,
    dags: Path,
    tmp_path: Path,
) -> Run:
    made = Run(example, stream_tester, planning, dags, tmp_path)
    (tmp_path / "products").mkdir()
    (tmp_path / "products" / "names.csv").write_text("p1,teapot\n")
    if "{run}/models/first" in example.arguments:
        feed("sensors", tmp_path / "past", range(3))
        for name, limit in (("first", "66000"), ("second", "61000")):
            given = ("--model", tmp_path / "models" / name, "--limit", limit)
            trainer = made.script.with_name("train_model.py")
            stream_tester.run(
                trainer, "--input", tmp_path / "past", *given, checkpoint=tmp_path / "unused"
            )
    return made


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=[*EXAMPLES])
def test_a_killed_example_goes_on_as_another_version_and_equals_a_batch(
    run: Run, feed: Feeding
) -> None:
    check_goes_on(run, lambda numbers: feed(run.example.feed, run.folder / "in", numbers))


def check_goes_on(run: Run, arrive: Callable[[range], None]) -> None:
    """Kill the first version, ask the gate about others, and let the accepted one read the rest."""
    files = run.example.files
    arrive(range(files - 1))
    run.killed()
    arrive(range(files - 1, files))
    for version in run.example.refused:
        assert run.gate(version).decision is GateDecision.NOT_ALLOWED
    accepted = run.gate(run.example.upgrade)
    assert accepted.decision in ACCEPTED, accepted.findings
    run.upgraded()

    run.example.check(run)


def test_a_killed_stream_of_topics_goes_on_with_larger_batches(
    stream_tester: StreamTester, planning: Spark, dags: Path, tmp_path: Path
) -> None:
    with kafka_broker(tmp_path / "kafka") as broker:
        for topic in ("clicks", "payments", "events"):
            create_topic(broker, topic, 1)
        run = Run(KAFKA, stream_tester, planning, dags, tmp_path, broker)
        check_goes_on(run, lambda numbers: test_kafka.send(broker, "clicks", numbers))


def test_words_in_memory_are_counted_anew_after_a_kill(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script = dags / "first_stream" / "jobs" / "word_count.py"
    given = ("--input", tmp_path / "in", "--sink", "memory")
    feed("mentions", tmp_path / "in", range(2))
    live = stream_tester.start(script, *given, checkpoint=tmp_path / "checkpoint")
    live.await_batch("words", 0)
    stream_tester.kill()

    feed("mentions", tmp_path / "in", [2])
    run = stream_tester.run(script, *given, checkpoint=tmp_path / "checkpoint")
    # Nothing was kept, and files can be read again: all of them are in the one batch that there is.
    assert run["words"].batches == [0]
    assert not compare_rows(run["words"].rows or [], test_small.words(3))
