"""Topics and partitions of a Kafka source, with the partitions that the checkpoint keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint, SourcePosition, SourceType
from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.topics import topics_against
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edit import KAFKA

CHECKPOINT = Checkpoint(
    uri="/c",
    last_planned_batch=4,
    last_committed_batch=4,
    sources=(
        SourcePosition(
            name="0", source=SourceType.KAFKA, offset={"a": {"0": 1, "1": 2}, "b": {"0": 7}}
        ),
    ),
    is_stateful=False,
)
ALL = 'assign {"a": [0, 1], "b": [0]}'
LOSSY = {"failondataloss": "false"}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("subscribe a,b", "subscribepattern b|a", ["source.topics_same"]),
        ("subscribepattern [ab]", "subscribe b,a", ["source.topics_same"]),
        ("subscribepattern [ab]", "subscribe a", ["source.topics"]),
        ("subscribepattern [ab]", "subscribe a,b,c", ["source.topics_added"]),
        ("subscribe a,b", ALL, ["source.partitions_fixed"]),
        ("subscribe a,b", 'assign {"a": [0], "b": [0]}', ["source.topics"]),
        ("subscribe a,b", 'assign {"a": [0, 1]}', ["source.topics"]),
        (
            "subscribe a,b",
            'assign {"a": [0, 1, 2], "b": [0]}',
            ["source.partitions_fixed", "source.topics_added"],
        ),
        (ALL, 'assign {"b": [0], "a": [1, 0]}', ["source.topics_same"]),
        (ALL, 'assign {"a": [0, 1], "b": [0, 1]}', ["source.topics_added"]),
        (ALL, "subscribe a,b", ["source.topics_same"]),
        (ALL, "assign a", ["source.topics_unseen", "spark.refuses"]),
    ],
)
def test_topics_are_compared_by_the_partitions_of_the_checkpoint(
    old: str, new: str, rules: list[str]
) -> None:
    before = b.with_options(replace(KAFKA, sources=(b.a_kafka_source(paths=(old,)),)), **LOSSY)
    after = b.with_source(before, paths=(new,))

    found = judge_change(before, after, CHECKPOINT)

    assert sorted(finding.rule for finding in found) == rules


@pytest.mark.parametrize("lossy", [True, False])
def test_a_topic_that_may_have_lost_its_first_records_is_rehearsed(lossy: bool) -> None:
    before = b.with_options(KAFKA, **LOSSY) if lossy else KAFKA
    after = b.with_source(before, paths=("subscribe a,b,c",))

    [finding] = judge_change(before, after, CHECKPOINT)

    rule = "source.topics_added" if lossy else "source.topics_added_guarded"
    assert (finding.rule, finding.evidence) == (rule, "offsets/4")


def test_without_the_old_plan_a_topic_more_is_no_refusal() -> None:
    new = b.with_source(KAFKA, paths=("subscribe a,b,c",))

    rules = {finding.rule for finding in judge_change(None, new, CHECKPOINT)}

    assert "source.topics_added_guarded" in rules
    assert "source.topics" not in rules


@pytest.mark.parametrize(
    "pattern", [r"(a+)+b", r"(\w|a)*b", ".*.*.*.*.*.*b"], ids=["nested", "choice", "many"]
)
def test_a_pattern_whose_search_can_take_for_ever_is_not_tried(pattern: str) -> None:
    source = b.a_kafka_source(paths=(f"subscribepattern {pattern}",))

    rules = {rule.name for rule in topics_against({"a" * 249: frozenset({0})}, source)}

    assert rules == {"source.topics_unseen"}


def test_a_pattern_with_three_repeats_is_tried_on_the_longest_topic() -> None:
    source = b.a_kafka_source(paths=("subscribepattern .*a.*a.*",))

    rules = {rule.name for rule in topics_against({"a" * 249: frozenset({0})}, source)}

    assert "source.topics_unseen" not in rules
