"""
The gate and the truth of Kafka edits, predicted from recorded plans and checkpoints.

``tests/system/kafka_edits`` tried them with Spark's own connector against a broker.
"""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.edit import Truth
from tests.system.edits.predicted import FINE, REFUSING
from tests.system.kafka_edits.catalogue import EDITS
from tests.system.kafka_edits.recorded import Answer, answers

PASSING = {GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE}
NOT_ALLOWED = GateDecision.NOT_ALLOWED


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    return list(answers(tmp_path_factory.mktemp("kafka_edits")))


def test_every_edit_was_planned_and_tried(answered: list[Answer]) -> None:
    assert [one.edit.name for one in answered] == [edit.name for edit in EDITS]
    assert len(answered) >= 40


def test_the_gate_says_what_a_careful_colleague_would_say(answered: list[Answer]) -> None:
    other = [
        f"{one.edit.name}: {one.report.decision}, {[f.rule for f in one.report.findings]}"
        for one in answered
        if one.report.decision is not one.edit.says
    ]

    assert other == []


def test_nothing_is_let_pass_that_spark_refuses_or_gets_wrong(answered: list[Answer]) -> None:
    lenient = [
        one.edit.name
        for one in answered
        if one.report.decision in PASSING and one.truth not in FINE
    ]

    assert lenient == []


def test_an_edit_that_runs_from_no_checkpoint_either_is_refused_and_not_unknown(
    answered: list[Answer],
) -> None:
    broken = {one.edit.name: one.report.decision for one in answered if one.truth is Truth.BROKEN}

    assert {name for name, decision in broken.items() if decision is not NOT_ALLOWED} == set()
    assert len(broken) >= 25


def test_few_harmless_edits_are_refused(answered: list[Answer]) -> None:
    fine = [one for one in answered if one.truth in FINE]
    refused = Counter(one.report.decision for one in fine if one.report.decision in REFUSING)

    # A topic that is no longer read, where lost records are passed over: the documentation forbids it.
    assert [one.edit.name for one in fine if one.report.decision is NOT_ALLOWED] == [
        "routed.topic_removed_lossy"
    ]
    assert refused[GateDecision.UNKNOWN] <= 4
