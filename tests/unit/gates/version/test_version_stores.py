from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from airflow_streaming.checkpoints.read.report import StoreType
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.version.matrix import Matrix, Outcome, Seen
from tests.unit.gates.version.asking import (
    AGGREGATE,
    JOIN,
    JOIN_FAILS,
    ROCKSDB,
    judge,
    of_aggregates,
    seen,
)
from tests.unit.gates.version.cases import (
    FINE,
    a_checkpoint,
    a_matrix,
    a_store,
    an_operator,
    join_schemas,
)
from tests.unit.gates.version.measured import plan_of

FORMAT_2_FAILS: Final = {
    "aggregate_update/format_2": {
        "4.0>3.5": Seen(there=Outcome.FAILED, condition="UnsupportedLogVersion")
    },
    "limit/rocksdb": {"4.0>3.5": FINE},
}


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_failure_on_one_store_is_not_held_against_another(back: bool) -> None:
    on_rocksdb = a_checkpoint(an_operator(stores=(ROCKSDB,)))
    matrix = Matrix(measured="2026-11-21", releases={}, cells=FORMAT_2_FAILS)

    report = judge(on_rocksdb, "4.0 to 3.5.9", matrix=matrix, back=back)

    told = "version.back.not_measured" if back else "version.not_measured"
    [found] = [finding for finding in report.findings if finding.rule == told]
    assert report.decision is GateDecision.UNKNOWN
    assert back or "aggregate update on format 2 failed (UnsupportedLogVersion)" in found.evidence


def test_what_the_state_itself_says_of_a_join_holds_on_every_store() -> None:
    stores = tuple(a_store(store.name, StoreType.ROCKSDB) for store in JOIN.operators[0].stores)
    join = replace(JOIN, operators=(an_operator(None, stores=stores),))
    matrix = a_matrix(
        {"inner_join/hdfs": {"3.5>4.3": JOIN_FAILS}, "limit/rocksdb": {"3.5>4.3": FINE}}
    )

    report = judge(
        join,
        "3.5 to 4.3",
        plan=plan_of("inner_join"),
        matrix=matrix,
        schemas=join_schemas(nullable=False),
    )

    assert report.findings[0].rule == "version.needs_conf"


@pytest.mark.parametrize(
    ("back", "says", "evidence"),
    [
        (Outcome.UNTRIED, "was not measured", "was not tried"),
        (Outcome.OTHER, "gave other rows", "other rows"),
    ],
)
def test_what_is_said_of_a_way_back_and_its_evidence_agree(
    back: Outcome, says: str, evidence: str
) -> None:
    matrix = seen("stateless/none", "4.0>4.3", there=Outcome.SAME, back=back)

    report = judge(a_checkpoint(), "4.0 to 4.3", plan=plan_of("stateless"), matrix=matrix)

    [found] = [each for each in report.findings if each.rule == "version.no_way_back"]
    assert says in found.message
    assert evidence in found.evidence


def test_coming_back_after_a_failure_is_not_called_going_on_with_the_same_rows() -> None:
    matrix = of_aggregates(there=Outcome.FAILED, back=Outcome.SAME)

    report = judge(
        AGGREGATE, "4.0 to 4.3", plan=plan_of("window_aggregate"), matrix=matrix, back=True
    )

    assert "The new Spark failed" in report.findings[0].message
