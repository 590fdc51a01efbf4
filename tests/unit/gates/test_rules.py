"""``rules.toml`` says what rules there are, and code when each applies: both name the same."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.rules import all_rules, rule_named
from airflow_streaming.reports.gate import ALL_RULES


def test_every_rule_of_the_table_is_used_by_code_and_every_used_one_is_in_the_table() -> None:
    assert {rule.name for rule in ALL_RULES} == all_rules().keys()
    assert len(ALL_RULES) == len(all_rules())


def test_a_rule_of_the_code_is_the_one_of_the_table() -> None:
    assert [rule for rule in ALL_RULES if rule != rule_named(rule.name)] == []


def test_a_name_without_a_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        rule_named("no.such_rule")
