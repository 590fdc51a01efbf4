"""Every key of Spark's configuration has a row or belongs to a deployment: a release with a new key fails here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from airflow_streaming.gates.change.diff import differences
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.settings import (
    Effect,
    all_classes,
    judge_core,
    judge_settings,
    meaning_of,
)
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.plan.core_settings import is_recorded
from airflow_streaming.model.spark.plan import QueryPlan
from tests.corpus.spark_keys import core_keys_of, keys_of
from tests.unit.gates.change import builders as b

RUNTIMES = sorted((Path(__file__).parents[3] / ".runtimes").glob("spark-*"))
ENDLESS = b.with_operator(b.an_aggregation(), ends=False)
SMALLER = {"spark.sql.files.maxPartitionBytes": "1m"}


@pytest.mark.parametrize("runtime", RUNTIMES, ids=[one.name for one in RUNTIMES])
def test_every_key_of_a_release_has_a_row(runtime: Path) -> None:
    keys = keys_of(runtime)

    assert len(keys) > 400
    assert [key for key in keys if meaning_of(key) is None] == []


@pytest.mark.parametrize("runtime", RUNTIMES, ids=[one.name for one in RUNTIMES])
def test_every_key_of_a_releases_core_has_a_row_or_is_of_a_deployment(runtime: Path) -> None:
    keys = core_keys_of(runtime)

    assert len(keys) > 400
    assert [key for key in keys if is_recorded(key) and meaning_of(key) is None] == []
    assert {"spark.python.worker.reuse", "spark.files.maxPartitionBytes"} <= {
        *filter(is_recorded, keys)
    }


def test_every_effect_has_rows_and_no_row_is_there_twice() -> None:
    counts = Counter(known.effect for known in all_classes().values())
    assert counts.keys() == {*Effect}


def decided(plan: QueryPlan, settings: dict[str, str]) -> GateDecision:
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


MEASURED: Final = "spark.default.parallelism"


def answers(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None
) -> dict[str, GateDecision]:
    """Return the answer for each changed setting of the core of a query whose rows see their batches."""
    plan = b.with_steps(b.a_stateless(), ("project", "spark_partition_id() AS p", 0))
    found = judge_core(Pair(old=replace(plan, core=old), new=replace(plan, core=new)))
    return {finding.about[0]: finding.severity for finding in found}


@pytest.mark.parametrize(
    ("key", "value", "decision"),
    [
        (MEASURED, "7", GateDecision.ALLOWED_WITH_CONSEQUENCE),
        (
            "spark.executor.extraJavaOptions",
            "-Duser.timezone=CET",
            GateDecision.ALLOWED_WITH_CONSEQUENCE,
        ),
        ("spark.python.authenticate.socketTimeout", "1m", GateDecision.ALLOWED),
        ("spark.vendor.reader.strict", "true", GateDecision.UNKNOWN),
        ("spark.hadoop.parquet.strings.signed-min-max.enabled", "true", GateDecision.UNKNOWN),
    ],
)
def test_a_setting_of_the_core_is_judged_by_its_row(
    key: str, value: str, decision: GateDecision
) -> None:
    assert answers({}, {key: value}) == {f"core.{key}": decision}
    assert answers({key: value}, {}) == {f"core.{key}": decision}
    assert answers({key: value}, {key: value}) == {}


@pytest.mark.parametrize(("old", "new"), [(None, {MEASURED: "7"}), ({MEASURED: "7"}, None)])
def test_a_plan_that_was_recorded_without_the_core_is_not_compared_with_it(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None
) -> None:
    assert answers(old, new) == {}


def test_a_change_of_the_core_is_found_by_the_whole_comparison() -> None:
    plan = b.a_stateless()
    pair = Pair(old=replace(plan, core={}), new=replace(plan, core={"spark.vendor.mode": "x"}))

    assert [at for at, _, _ in differences(pair)] == ["core.spark.vendor.mode"]
