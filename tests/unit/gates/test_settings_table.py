"""Every key of Spark SQL's configuration has a row: a release with a new key fails here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.settings import Effect, all_classes, judge_settings, meaning_of
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.plan import QueryPlan
from tests.corpus.spark_keys import keys_of
from tests.unit.gates.change import builders as b

RUNTIMES = sorted((Path(__file__).parents[3] / ".runtimes").glob("spark-*"))
ENDLESS = b.with_operator(b.an_aggregation(), ends=False)
SMALLER = {"spark.sql.files.maxPartitionBytes": "1m"}


@pytest.mark.parametrize("runtime", RUNTIMES, ids=[one.name for one in RUNTIMES])
def test_every_key_of_a_release_has_a_row(runtime: Path) -> None:
    keys = keys_of(runtime)

    assert len(keys) > 400
    assert [key for key in keys if meaning_of(key) is None] == []


def test_every_effect_has_rows_and_no_row_is_there_twice() -> None:
    counts = Counter(known.effect for known in all_classes().values())
    assert counts.keys() == {*Effect}


def decided(plan: QueryPlan, settings: dict[str, str]) -> GateDecision:
    from dataclasses import replace

    (finding,) = judge_settings(Pair(old=plan, new=replace(plan, settings=settings)))
    return finding.severity


@pytest.mark.parametrize(
    ("plan", "decision"),
    [
        (b.a_stateless(), GateDecision.ALLOWED),
        (b.with_steps(b.a_stateless(), ("map", "f(k)", 0)), GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (
            b.with_steps(b.a_stateless(), ("project", "f(k)['func=1']", 0)),
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
        ),
        (
            b.with_steps(b.a_stateless(), ("project", "spark_partition_id() AS p", 0)),
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
        ),
        (b.with_sink(b.a_stateless(), code="1"), GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (
            b.with_operator(b.an_aggregation(), values=("first(v)", "count(1)"), ends=False),
            GateDecision.NOT_ALLOWED,
        ),
        (b.an_aggregation(), GateDecision.ALLOWED),
        (b.with_operator(b.an_aggregation(), function="f"), GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (b.with_sink(ENDLESS, code="1"), GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (b.with_steps(ENDLESS, ("map", "f(k)", 0)), GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (b.with_steps(ENDLESS, ("map", "f(k)", 1)), GateDecision.NOT_ALLOWED),
    ],
)
def test_the_size_of_batches_counts_where_something_sees_it(
    plan: QueryPlan, decision: GateDecision
) -> None:
    assert decided(plan, SMALLER) is decision


@pytest.mark.parametrize(
    ("key", "decision"),
    [
        ("spark.sql.pivotMaxValues", GateDecision.ALLOWED_WITH_CONSEQUENCE),
        ("spark.sql.cbo.enabled", GateDecision.UNKNOWN),
        ("spark.sql.planChangeLog.level", GateDecision.ALLOWED),
        ("spark.sql.unheard.of", GateDecision.UNKNOWN),
        ("spark.sql.shuffle.partitions", GateDecision.UNKNOWN),
    ],
)
def test_a_key_is_judged_by_its_row(key: str, decision: GateDecision) -> None:
    assert decided(b.a_stateless(), {key: "1"}) is decision
