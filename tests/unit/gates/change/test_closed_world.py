"""Nothing is allowed that no rule explains: any one thing of a recorded plan is changed at random."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.change.settings import Effect, all_classes, meaning_of
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.spark.plan import OPAQUE
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.random_changes import random_changes

CHANGES = 700


@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_one_thing_is_allowed_without_a_rule_that_names_it(seed: int) -> None:
    assert [one for one in random_changes(CHANGES, random.Random(seed)) if one.is_let_pass] == []


def test_a_difference_that_no_rule_looks_for_is_shown_and_makes_the_answer_unknown() -> None:
    old = b.an_aggregation()
    new = b.with_operator(old, ends=False)

    (finding,) = judge_change(old, new, None)

    assert finding.rule == "plan.unexplained"
    assert finding.severity is GateDecision.UNKNOWN
    assert (finding.about, finding.old, finding.new) == (("operators[0].ends",), "True", "False")


def test_what_could_not_be_looked_into_is_the_same_in_the_same_script_alone() -> None:
    plan = b.with_operator(b.an_aggregation(), values=(f"sum(f(v)['func={OPAQUE} Broadcast'])",))

    assert b.decision_of(plan, plan) is GateDecision.UNKNOWN
    assert b.decision_of(plan, plan, same_code=True) is GateDecision.ALLOWED


def test_a_projection_that_feeds_another_step_before_state_is_not_taken_for_unused() -> None:
    old = b.with_steps(
        b.an_aggregation(), ("map", "f(w)", 1), ("project", "k, v, ts, (v + 1) AS w", 1)
    )
    new = b.with_steps(
        b.an_aggregation(), ("map", "f(w)", 1), ("project", "k, v, ts, (v + 2) AS w", 1)
    )

    assert b.decision_of(old, new) is GateDecision.UNKNOWN


def test_a_setting_is_classified_by_its_longest_known_beginning() -> None:
    values, nothing = meaning_of("spark.sql.legacy.new"), meaning_of("spark.sql.ui.new")

    assert values is not None
    assert values.effect is Effect.VALUES
    assert nothing is not None
    assert nothing.effect is Effect.NOTHING
    assert meaning_of("spark.sql.unheard") is None
    assert all(known.source for known in all_classes().values())


def test_plans_of_two_sparks_are_unknown_where_their_nodes_differ_unless_the_script_is_the_same() -> (
    None
):
    old = replace(b.a_stateless(), spark="4.1.0")
    new = replace(b.a_stateless(), nodes=(b.a_node(),))

    assert b.decision_of(old, new) is GateDecision.UNKNOWN
    assert b.decision_of(old, new, same_code=True) is GateDecision.ALLOWED
