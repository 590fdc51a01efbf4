from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.model.spark.plan import QueryPlan
from tests.unit.gates.version.asking import AGGREGATE, BOTH_SIDES, JOIN, judge
from tests.unit.gates.version.cases import a_checkpoint, a_source, an_operator
from tests.unit.gates.version.measured import plan_of

CONTRARY: Final[Mapping[str, tuple[Checkpoint, QueryPlan]]] = {
    "another operator, told by its name": (
        a_checkpoint(an_operator("stateStoreSave")),
        plan_of("deduplicate"),
    ),
    "another operator, told by its stores": (JOIN, plan_of("window_aggregate")),
    "state, and a plan without": (AGGREGATE, plan_of("stateless")),
    "no state, and a plan with": (a_checkpoint(), plan_of("window_aggregate")),
    "more operators than the plan": (
        a_checkpoint(an_operator(), an_operator("dedupe", id=1)),
        plan_of("window_aggregate"),
    ),
    "fewer operators than the plan": (AGGREGATE, plan_of("deduplicate_aggregate")),
    "fewer sources than the plan": (
        a_checkpoint(an_operator("symmetricHashJoin")),
        plan_of("inner_join"),
    ),
    "more sources than the plan": (a_checkpoint(sources=BOTH_SIDES), plan_of("stateless")),
    "sources of other names": (
        a_checkpoint(sources=(a_source(name="orders"),)),
        plan_of("stateless"),
    ),
}


@pytest.mark.parametrize("name", CONTRARY)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_a_plan_is_not_believed_over_the_checkpoint(name: str, back: bool) -> None:
    checkpoint, plan = CONTRARY[name]

    report = judge(checkpoint, "3.5 to 4.3", plan=plan, back=back)
    alone = judge(checkpoint, "3.5 to 4.3", back=back)

    told = [finding for finding in report.findings if finding.rule == "version.contradiction"]
    assert told
    assert all(finding.old != finding.new for finding in told)
    assert [f for f in report.findings if f not in told] == list(alone.findings)


def test_before_the_first_commit_a_checkpoint_has_no_state_to_contradict() -> None:
    begun = a_checkpoint(last_planned_batch=0, last_committed_batch=None)

    report = judge(begun, "3.5 to 4.3", plan=plan_of("window_aggregate"))

    assert "version.contradiction" not in {finding.rule for finding in report.findings}
