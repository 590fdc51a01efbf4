"""The time to data loss among the figures of a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_streaming.driver.sources.file_backlog import Waiting
from airflow_streaming.driver.sources.kafka_retention import Part
from airflow_streaming.driver.sources.source_outlook import SourceOutlooks, with_outlook
from airflow_streaming.model.products.retention import LossGap, Outlook, unknown
from airflow_streaming.model.progress import SourceProgress
from tests.unit.driver.test_kafka_retention import NOW as BROKERS_NOW
from tests.unit.driver.test_kafka_retention import FakeBroker

NOW = 1_795_000_000.0
FILES = SourceProgress(source="FileStreamSource[file:/in]")
TOPIC = SourceProgress(source="KafkaV2[Subscribe[orders]]")
DECLARED = (("/in", 1_000.0),)


def test_files_are_judged_by_the_declared_retention() -> None:
    waiting = {FILES.source: Waiting(3, NOW - 400, NOW - 400)}
    found = with_outlook(FILES, {}, waiting, DECLARED, NOW)
    assert (found.loss_in_s, found.kept_for_s, found.loss_share) == (600, 1_000, 0.6)
    assert found.read_until == "2026-11-18T11:00:00+00:00"
    undeclared = with_outlook(FILES, {}, waiting, (), NOW)
    assert (undeclared.loss_in_s, undeclared.loss_gap) == (None, "no_retention")
    assert undeclared.read_until == found.read_until


def test_an_empty_list_of_spark_does_not_tell_how_far_was_read() -> None:
    listed = {FILES.source: Waiting(0)}
    counted = {FILES.source: Waiting(0, None, NOW - 20)}
    assert with_outlook(FILES, {}, listed, DECLARED, NOW).read_until is None
    # The count is 20 s old, so newer files may be unread.
    assert with_outlook(FILES, {}, counted, DECLARED, NOW).read_until == "2026-11-18T11:06:20+00:00"
    assert with_outlook(FILES, {}, listed, DECLARED, NOW).loss_in_s == 1_000


def test_brokers_tell_for_themselves() -> None:
    outlook = Outlook(loss_at=NOW + 30, kept_for=60.0, read_until=NOW - 30)
    found = with_outlook(TOPIC, {TOPIC.source: outlook}, {}, (), NOW + 10)
    assert (found.loss_in_s, found.loss_share, found.loss_gap) == (20, 20 / 60, "")
    gone = with_outlook(TOPIC, {TOPIC.source: outlook}, {}, (), NOW + 99)
    assert gone.loss_in_s == 0
    silent = with_outlook(TOPIC, {TOPIC.source: unknown(LossGap.FAILED)}, {}, (), NOW)
    assert (silent.loss_in_s, silent.loss_gap) == (None, "failed")


def test_a_source_that_does_not_tell_stays_as_it_is() -> None:
    assert with_outlook(TOPIC, {}, {FILES.source: Waiting(1)}, DECLARED, NOW) == TOPIC


class JavaSource:
    """A source of a Java query, by its description."""

    def __init__(self, description: str) -> None:
        self.description = description

    def toString(self) -> str:
        return self.description

    def getClass(self) -> Any:
        return self

    def getName(self) -> str:
        return "Source"


class JavaQuery:
    """A Java query with its sources."""

    def __init__(self, *descriptions: str) -> None:
        self.found = [JavaSource(one) for one in descriptions]

    def streamingQuery(self) -> Any:
        return self

    def sources(self) -> Any:
        return self

    def size(self) -> int:
        return len(self.found)

    def apply(self, position: int) -> JavaSource:
        return self.found[position]


def test_a_broker_that_does_not_answer_hides_no_other_source() -> None:
    class Silent(FakeBroker):
        def latest(self, parts: Sequence[Part]) -> dict[Part, int]:
            raise TimeoutError("no answer in 20 s")

    brokers = {"KafkaV2[away]": Silent(), "KafkaV2[here]": FakeBroker()}
    found = SourceOutlooks(
        JavaQuery("KafkaV2[away]", "KafkaV2[here]", "KafkaV2[new]", "Rate"),
        lambda: BROKERS_NOW,
        lambda source: brokers.get(
            source.description, FakeBroker() if "new" in source.description else None
        ),
    ).look({"KafkaV2[away]": {"orders": {"0": 1}}, "KafkaV2[here]": {"orders": {"0": 1}}})
    assert found["KafkaV2[away]"].gap is LossGap.FAILED
    assert found["KafkaV2[here]"].gap is None
    assert found["KafkaV2[new]"].gap is LossGap.NO_POSITION
    assert "Rate" not in found
