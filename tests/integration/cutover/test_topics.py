"""Topics of two lanes are compared with a real broker, while both are still written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_streaming.changes import topic_comparison
from airflow_streaming.changes.topic_comparison import TopicRange, compare_topics
from airflow_streaming.changes.topic_connection import Launched, connection_of
from airflow_streaming.cli.main import main
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import CompareReport, CompareResult
from tests.integration.servers.broker import create_topic, kafka_broker
from tests.integration.servers.guarded_broker import Login, certificate, guarded

ROWS = 3000
BLUE, GREEN, LATE = "orders-000001", "orders-000002", "orders-000003"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        for topic in (BLUE, GREEN, LATE):
            create_topic(address, topic)
        fill(address, BLUE, range(ROWS))
        fill(address, GREEN, [*reversed(range(ROWS)), *range(40)])
        fill(address, LATE, [number for number in range(ROWS) if number not in (17, 99)])
        yield address


def fill(address: str, topic: str, numbers: Any, at: datetime | None = None) -> None:
    producer = Producer({"bootstrap.servers": address})
    when = {} if at is None else {"timestamp": int(at.timestamp() * 1000)}
    for number in numbers:
        value = json.dumps({"order": {"id": number}, "amount": 1.5 * number})
        producer.produce(topic, key=f"k{number % 50}", value=value, headers=[("v", b"1")], **when)
        producer.poll(0)
    producer.flush()


def compared(broker: str, green: str, **changes: Any) -> CompareReport:
    asked = {"keys": ("value.order.id",), "headers": True, **changes}
    terms = CompareTerms(
        stream="orders", format="kafka", options={"kafka.bootstrap.servers": broker}, **asked
    )
    waits: list[float] = []
    return compare_topics(
        terms, TopicRange(topic=BLUE), TopicRange(topic=green), sleep=waits.append
    )


def test_order_and_repeats_do_not_count(broker: str) -> None:
    report = compared(broker, GREEN)

    assert report.result is CompareResult.SAME, report.reason
    assert "3,000 records of 3,000 keys" in report.reason
    assert "0 in blue's, 40 in green's" in report.reason
    assert report.notes[0].startswith(f"Blue: topic {BLUE}, offsets by partition 0: 0 to ")


def test_a_record_that_arrives_while_it_is_looked_for_is_not_missing(broker: str) -> None:
    def arrive(_: float) -> None:
        fill(broker, LATE, [17])

    terms = CompareTerms(
        stream="orders", format="kafka", options={"kafka.bootstrap.servers": broker}
    )
    report = compare_topics(terms, TopicRange(topic=BLUE), TopicRange(topic=LATE), sleep=arrive)

    assert report.result is CompareResult.DIFFERS
    assert "1 records are only in blue's topic and 0 only in green's" in report.reason

    named = compared(broker, LATE).differences
    assert [one.key["key"] for one in named] == ["value.order.id=99"]


def test_records_that_arrive_while_a_topic_is_read_are_found_in_the_next_look(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, growing = "whole", "growing"
    for topic in (whole, growing):
        create_topic(broker, topic, 2)
    fill(broker, whole, range(200))
    fill(broker, growing, range(150))
    refresh = topic_comparison._Reader._refresh
    arriving = [range(150, 200)]

    def grow(self: Any) -> None:
        refresh(self)
        if self.side.topic == growing and arriving:
            fill(broker, growing, arriving.pop())

    monkeypatch.setattr(topic_comparison._Reader, "_refresh", grow)
    terms = CompareTerms(
        stream="orders", format="kafka", options={"kafka.bootstrap.servers": broker}
    )

    ranges = TopicRange(topic=growing), TopicRange(topic=whole)
    report = compare_topics(terms, *ranges, sleep=lambda _: None)

    assert report.result is CompareResult.SAME, report.reason


def test_only_records_of_the_range_must_be_in_both(broker: str) -> None:
    old, new, now = "since-1", "since-2", datetime.now(UTC)
    for topic in (old, new):
        create_topic(broker, topic)
    fill(broker, old, range(10), now - timedelta(days=2))
    fill(broker, old, range(10, 20), now)
    fill(broker, new, range(10, 20), now)
    terms = CompareTerms(
        stream="orders", format="kafka", options={"kafka.bootstrap.servers": broker}
    )
    since = now - timedelta(minutes=5)

    def look(start: datetime | None) -> CompareResult:
        ranges = (TopicRange(topic=topic, since=start) for topic in (old, new))
        return compare_topics(terms, *ranges, sleep=lambda _: None).result

    assert look(since) is CompareResult.SAME
    assert look(None) is CompareResult.DIFFERS


def test_a_topic_that_is_missing_or_too_large_proves_nothing(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = compared(broker, "nowhere")
    monkeypatch.setattr(topic_comparison, "MOST_RECORDS", 100)
    large = compared(broker, GREEN)

    assert {missing.result, large.result} == {CompareResult.INCONCLUSIVE}
    assert f"Topic 'nowhere' is not on {broker}" in missing.reason
    assert "100 are compared at most" in large.reason


def test_the_command_compares_topics_without_a_spark(
    broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["compare", "--format", "kafka", "--blue", BLUE, "--green", GREEN]
    option = ["--option", f"kafka.bootstrap.servers={broker}", "--key", "value.order.id"]

    assert main([*asked, *option]) == 0
    assert "3,000 records of 3,000 keys" in capsys.readouterr().out.replace("\n", " ")
    assert main(asked) == 2
    assert "kafka.bootstrap.servers" in capsys.readouterr().err


def test_a_broker_that_does_not_answer_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_comparison, "_SILENCE", 1.0)

    report = compared("127.0.0.1:9", GREEN)

    assert report.result is CompareResult.INCONCLUSIVE
    assert "on 127.0.0.1:9 cannot be read" in report.reason


def test_topics_are_read_over_tls_with_the_trust_store_of_the_script(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_comparison, "_SILENCE", 3.0)
    terms = CompareTerms(stream="orders", format="kafka", keys=("value.order.id",))
    made, key = certificate(tmp_path)
    text = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": made.read_text(),
    }

    with guarded(broker, tls=(made, key)) as address:
        writer = {"kafka.bootstrap.servers": address, "kafka.security.protocol": "SSL"}

        def result(more: dict[str, str]) -> CompareReport:
            options = connection_of({**writer, **more, "kafka.acks": "all"}, {}, Launched())
            ranges = TopicRange(topic=BLUE), TopicRange(topic=GREEN)
            return compare_topics(terms, *ranges, options=options, sleep=lambda _: None)

        assert result(text).result is CompareResult.SAME
        untrusted = result({})

    assert untrusted.result is CompareResult.INCONCLUSIVE
    assert f"on {address} cannot be read" in untrusted.reason


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_topics_are_read_with_the_login_of_the_script(
    broker: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_comparison, "_SILENCE", 5.0)
    terms = CompareTerms(stream="orders", format="kafka", keys=("value.order.id",))
    login = Login(mechanism=mechanism)
    module = "scram.ScramLoginModule" if mechanism != "PLAIN" else "plain.PlainLoginModule"

    with guarded(broker, login=login) as address:
        writer = {
            "kafka.bootstrap.servers": address,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": "*********(redacted)",
        }

        def result(password: str) -> CompareReport:
            jaas = f'org.apache.kafka.common.security.{module} required username="kim" password="{password}";'
            launched = Launched(conf={"spark.kafka.sasl.jaas.config": jaas})
            options = connection_of(writer, {}, launched)
            ranges = TopicRange(topic=BLUE), TopicRange(topic=GREEN)
            return compare_topics(terms, *ranges, options=options, sleep=lambda _: None)

        assert result(login.password).result is CompareResult.SAME
        wrong = result("not-the-password")

    assert wrong.result is CompareResult.INCONCLUSIVE
    assert f"on {address} cannot be read" in wrong.reason
    assert "Authentication failed" in wrong.reason
    assert "not-the-password" not in wrong.reason
