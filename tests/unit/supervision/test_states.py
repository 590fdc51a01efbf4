"""The state of every rule, as metrics systems get it."""

from __future__ import annotations

import pytest

from airflow_streaming.model.health_rules import Finding, RuleState, Severity
from airflow_streaming.model.observation import Verdict, VerdictState
from airflow_streaming.supervision.rules.states import MOST_STATES, rule_states

WELL = Verdict(state=VerdictState.HEALTHY, reason="It works.")


def finding(rule: str, state: RuleState, query: str = "revenue", source: str = "") -> Finding:
    return Finding(
        rule=rule, state=state, severity=Severity.ALERT, query=query, source=source, reason="."
    )


@pytest.mark.parametrize("state", RuleState)
def test_a_rule_on_figures_fires_in_one_state_only(state: RuleState) -> None:
    states = rule_states(WELL, [finding("late", state)], ["revenue"])

    assert states["late", "revenue"] is (state is RuleState.FIRING)


def test_a_rule_fires_when_it_does_for_one_source() -> None:
    found = [
        finding("backlog", RuleState.CLEAR, source="a"),
        finding("backlog", RuleState.FIRING, source="b"),
        finding("backlog", RuleState.UNKNOWN, source="c"),
    ]

    assert rule_states(WELL, found, ["revenue"])["backlog", "revenue"]


def test_built_in_rules_have_a_state_while_nothing_fires() -> None:
    states = rule_states(WELL, [], ["revenue"])

    assert not any(states.values())
    assert {
        ("hung", ""),
        ("unreachable", ""),
        ("stalled", "revenue"),
        ("query_failed", "revenue"),
    } <= set(states)


def test_a_verdict_names_what_fires_beside_the_rules() -> None:
    hung = Verdict.of(VerdictState.HUNG, (finding("hung", RuleState.FIRING, query=""),))

    assert {key for key, fires in rule_states(hung, [], []).items() if fires} == {("hung", "")}


def test_the_rules_that_fire_are_exported_before_the_limit_is_reached() -> None:
    many = [finding(f"r{n}", RuleState.CLEAR) for n in range(MOST_STATES)]
    states = rule_states(WELL, [*many, finding("last", RuleState.FIRING)], [])

    assert len(states) == MOST_STATES
    assert states["last", "revenue"]
