"""The doctor names sources that a restart cannot read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_streaming.advice.examined import Outcome, RiskLevel
from airflow_streaming.model.progress import SourceProgress
from airflow_streaming.model.spark.plan import SourcePlan
from tests.unit.supervision.examined import a_planned_query, batches, facts, the_one


@pytest.mark.parametrize(
    ("names", "outcome", "level", "named"),
    [
        pytest.param(("file", "kafka"), Outcome.FINE, None, "file, kafka", id="files and Kafka"),
        pytest.param(("socket",), Outcome.RISK, RiskLevel.HIGH, "socket", id="a socket"),
        pytest.param(
            ("file", "socket"), Outcome.RISK, RiskLevel.HIGH, "socket", id="a socket beside files"
        ),
        pytest.param(("weather",), Outcome.UNKNOWN, None, "weather", id="a source of its author's"),
        pytest.param(
            ("kafka", "kafka-share"),
            Outcome.RISK,
            RiskLevel.HIGH,
            "kafka-share",
            id="a share group",
        ),
        pytest.param((), Outcome.UNKNOWN, None, "", id="sources that were not read"),
    ],
)
def test_a_source_that_cannot_be_replayed_is_a_risk(
    names: tuple[str, ...], outcome: Outcome, level: RiskLevel | None, named: str
) -> None:
    sources = tuple(SourcePlan(source=name) for name in names)
    advice = the_one("source-replay", facts(plans=(replace(a_planned_query(), sources=sources),)))

    assert (advice.outcome, advice.level, advice.query) == (outcome, level, "revenue")
    assert named in advice.what + advice.evidence


@pytest.mark.parametrize(
    ("offsets", "rows", "outcome"),
    [
        pytest.param(("a", "a"), 5, Outcome.RISK, id="rows without a step"),
        pytest.param(("a", "b"), 5, Outcome.UNKNOWN, id="a step for its rows"),
        pytest.param(("a", "a"), 0, Outcome.UNKNOWN, id="nothing to read"),
        pytest.param((None, None), 5, Outcome.UNKNOWN, id="no offsets reported"),
    ],
)
def test_an_unknown_source_whose_offset_stands_still_while_it_gives_rows_is_a_queue(
    offsets: tuple[str | None, str | None], rows: int, outcome: Outcome
) -> None:
    history = tuple(
        replace(
            batch,
            sources=(SourceProgress(source="Weather[x]", input_rows=rows, end_offset=offset),),
        )
        for batch, offset in zip(batches(2), offsets, strict=True)
    )
    plan = replace(a_planned_query(), sources=(SourcePlan(source="weather"),))
    advice = the_one("source-replay", facts(plans=(plan,), history=history))

    assert advice.outcome is outcome
    assert ("Weather[x]" in advice.evidence) is (outcome is Outcome.RISK)


def test_without_plans_it_is_not_known() -> None:
    assert the_one("source-replay", facts(plans=())).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("is_inferred", "outcome", "level"),
    [(True, Outcome.RISK, RiskLevel.MEDIUM), (False, Outcome.FINE, None)],
)
def test_columns_that_spark_infers_are_a_risk(
    is_inferred: bool, outcome: Outcome, level: RiskLevel | None
) -> None:
    source = SourcePlan(source="file", format="json", paths=("/in",), inferred=is_inferred)
    plan = replace(a_planned_query(), sources=(source,))
    advice = the_one("schema-inference", facts(plans=(plan,)))

    assert (advice.outcome, advice.level) == (outcome, level)
    assert ("/in" in advice.evidence) is is_inferred


def test_without_plans_inference_is_not_known() -> None:
    assert the_one("schema-inference", facts(plans=())).outcome is Outcome.UNKNOWN
