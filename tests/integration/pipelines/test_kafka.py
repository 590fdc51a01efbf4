from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.testing import StreamTester, undo_last_commit
from demo.feeds.__main__ import to_topic
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.servers.broker import consume, create_topic, kafka_broker
from tests.integration.servers.connector import official_jars
from tests.patience import PATIENCE

# A Python data source hands its rows over as Arrow.
pytestmark = pytest.mark.usefixtures("has_pandas")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


def sent(feed: str, files: range) -> list[str]:
    return [row["id"] for n in files for row in parsed(FEEDS[feed].lines(n))]


def send(broker: str, feed: str, files: range) -> None:
    names = ((f"{n:06}.json", "\n".join(FEEDS[feed].lines(n))) for n in files)
    to_topic(names, broker, feed)


def test_topics_become_one_and_a_replayed_batch_keeps_its_keys(
    broker: str, stream_tester: StreamTester, dags: Path, tmp_path: Path
) -> None:
    jobs, checkpoint = dags / "kafka_to_kafka" / "jobs", tmp_path / "checkpoint"
    for topic in ("clicks", "payments", "events"):
        create_topic(broker, topic, 2)

    def run(*more: str) -> list[int]:
        done = stream_tester.run(
            jobs / "route_events.py",
            *("--servers", broker, "--topics", "clicks,payments", "--into", "events"),
            *("--connector", "python_kafka", "--max-offsets", "60", *more),
            checkpoint=checkpoint,
            py_files=[jobs / "python_kafka.py"],
        )
        return [one["numInputRows"] for one in done["routed"].progress if one["numInputRows"]]

    for topic in ("clicks", "payments"):
        send(broker, topic, range(2))
    batches = run()
    assert len(batches) > 2
    assert max(batches) <= 60
    replayed = undo_last_commit(checkpoint, "routed")
    send(broker, "clicks", range(2, 3))
    run()

    expected = Counter(sent("clicks", range(3)) + sent("payments", range(2)))
    found = consume(broker, "events", expected.total(), within=PATIENCE)
    once = {message.key: message.value["id"] for message in found}
    assert Counter(once.values()) == expected
    twice = [key for key, times in Counter(m.key for m in found).items() if times > 1]
    assert {m.headers["batch"] for m in found if m.key in twice} == {str(replayed)}
    assert {message.headers["topic"] for message in found} == {"clicks", "payments"}
    assert all(message.headers["file"].endswith(".json") for message in found)


def test_expired_offsets_fail_the_query_unless_loss_is_accepted(
    broker: str, stream_tester: StreamTester, dags: Path, tmp_path: Path
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    jobs, checkpoint = dags / "kafka_to_kafka" / "jobs", tmp_path / "checkpoint"
    for topic in ("mentions", "kept"):
        create_topic(broker, topic, 1)

    def run(lossy: str) -> object:
        return stream_tester.run(
            jobs / "route_events.py",
            *("--servers", broker, "--topics", "mentions", "--into", "kept"),
            *("--connector", "python_kafka", "--fail-on-data-loss", lossy),
            checkpoint=checkpoint,
            py_files=[jobs / "python_kafka.py"],
            check=False,
        )["routed"].error

    send(broker, "mentions", range(1))
    assert run("true") is None
    first = len(FEEDS["mentions"].lines(0))
    send(broker, "mentions", range(1, 2))
    admin = AdminClient({"bootstrap.servers": broker})
    [deleted] = admin.delete_records([TopicPartition("mentions", 0, first + 3)]).values()
    deleted.result(PATIENCE)

    assert run("true") is not None
    assert run("false") is None
    kept = [row["id"] for row in parsed(FEEDS["mentions"].lines(0))]
    kept += [row["id"] for row in parsed(FEEDS["mentions"].lines(1)[3:])]
    found = consume(broker, "kept", len(kept), within=PATIENCE)
    assert sorted(message.value["id"] for message in found) == sorted(kept)


def test_the_official_connector_routes_the_same(
    broker: str, stream_python: Path, dags: Path, tmp_path: Path
) -> None:
    jars = official_jars()
    for topic in ("accounts", "official"):
        create_topic(broker, topic, 2)
    send(broker, "accounts", range(2))
    with StreamTester(stream_python, conf={"spark.jars": jars}) as tester:
        tester.run(
            dags / "kafka_to_kafka" / "jobs" / "route_events.py",
            *("--servers", broker, "--topics", "accounts", "--into", "official"),
            checkpoint=tmp_path / "checkpoint",
        )

    expected = sent("accounts", range(2))
    found = consume(broker, "official", len(expected), within=PATIENCE)
    assert sorted(json.dumps(m.value["id"]) for m in found) == sorted(map(json.dumps, expected))
