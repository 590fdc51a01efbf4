"""Avro-encoded state: which other schema of a variable reads the old values."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.gates.change.user_state import (
    CHANGED,
    EVOLVED,
    FIELD_RENAMED,
    UNMEASURED,
    by_name,
    compare_variables,
    evolution,
    variables_of,
)
from airflow_streaming.gates.rules import Rule
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.variables import StateVariable
from tests.trees import variable, variables
from tests.unit.gates.change import builders as b


@pytest.mark.parametrize(
    ("was", "now", "rule"),
    [
        ("n bigint", "n bigint, m int", EVOLVED),
        ("n bigint, m int", "n bigint", EVOLVED),
        ("n bigint, m int", "m int, n bigint", EVOLVED),
        ("n int", "n bigint", EVOLVED),
        ("n long", "n double", EVOLVED),
        ("n integer", "n int", EVOLVED),
        ("k string -> n int", "k string -> n int, m int", EVOLVED),
        ("n bigint, m int", "n bigint, s string", EVOLVED),
        ("n bigint", "m bigint", FIELD_RENAMED),
        ("n bigint, m int", "n bigint, k int, l string", FIELD_RENAMED),
        ("n int", "m bigint", FIELD_RENAMED),
        ("n bigint", "m smallint", FIELD_RENAMED),
        ("n bigint", "n int", CHANGED),
        ("n int", "n string", CHANGED),
        ("n double", "n bigint", CHANGED),
        ("n bigint", "n bigint, m int not null", CHANGED),
        ("k string -> n int", "k string, l string -> n int", CHANGED),
        ("k string -> n int", "k binary -> n int", CHANGED),
        ("n int", "n float", UNMEASURED),
        ("n float", "n double, m int", UNMEASURED),
        ("n array<int>", "n array<int>, m int", UNMEASURED),
        ("n decimal(10,2)", "n decimal(12,2)", UNMEASURED),
        ("n", "n int", UNMEASURED),
    ],
)
def test_what_becomes_of_another_schema(was: str, now: str, rule: Rule) -> None:
    old, new = (variable(f"map v ({text})") for text in (was, now))
    assert evolution(old, new).name == rule.name


STATE: dict[str, Any] = {
    "stateVariables": [
        {"stateName": "spent", "stateVariableType": "ValueState", "ttlEnabled": False},
        {"stateName": "kinds", "stateVariableType": "MapState", "ttlEnabled": False},
        {"stateName": "seen", "stateVariableType": "ListState", "ttlEnabled": True},
        {"stateName": "$eventTimers_keyToTimestamp", "stateVariableType": "TimerState"},
    ]
}
CHECKPOINT = b.a_checkpoint(
    operators=(b.an_operator("transformWithStateInPandasExec", state=STATE),)
)


def stored(name: str, key: tuple[Column, ...], value: str) -> StoreSchema:
    return StoreSchema(
        operator=0, store=f"default/{name}", key=key, value=b.columns(value), path="_stateSchema"
    )


SCHEMAS = (
    stored("spent", b.columns("user string"), "amount bigint"),
    stored(
        "kinds",
        (*b.columns("key struct<user:string>"), *b.columns("userKey struct<kind:string>")),
        "number bigint",
    ),
    stored("seen", b.columns("user string"), "value struct<id:string>, ttlExpirationMs bigint"),
    stored("$rowCounter_seen", b.columns("user string"), "count bigint"),
)
SEEN = "list seen (id string) with a time to live of 1 ms"


def test_the_checkpoint_tells_the_variables_that_a_drivers_plan_does_not() -> None:
    assert variables_of(CHECKPOINT, 0, SCHEMAS) == {
        "spent": variable("value spent (amount bigint)"),
        "kinds": variable("map kinds (kind string -> number bigint)"),
        "seen": StateVariable(kind="list", name="seen", has_ttl=True),
    }
    assert variables_of(CHECKPOINT, 1, SCHEMAS) == {}


@pytest.mark.parametrize(
    ("name", "is_compared"),
    [
        ("$procTimers_keyToTimestamp", False),
        ("$rowCounter_seen", False),
        ("$ttl_seen", False),
        ("$mine", True),
        ("mine", True),
    ],
)
def test_a_variable_of_the_user_may_have_a_dollar_in_its_name(name: str, is_compared: bool) -> None:
    state = {"stateVariables": [{"stateName": name, "stateVariableType": "ValueState"}]}
    operator = b.an_operator("transformWithStateExec", state=state)

    assert (name in variables_of(b.a_checkpoint(operators=(operator,)), 0)) is is_compared


@pytest.mark.parametrize(
    ("now", "rules"),
    [
        ("value spent (amount long); map kinds (kind string -> number long)", []),
        ("value spent (amount double); map kinds (kind string -> number long)", [CHANGED]),
        ("value spent (amount long); map kinds (sort string -> number long)", [CHANGED]),
        ("value spent (amount long, n int); map kinds (kind string -> number long)", [CHANGED]),
    ],
)
def test_they_are_compared_with_those_of_the_new_plan(now: str, rules: list[Rule]) -> None:
    before, after = variables_of(CHECKPOINT, 0, SCHEMAS), by_name(variables(f"{now}; {SEEN}"))

    found = compare_variables(before, after, encoding="unsaferow", evidence="")

    assert [one.rule for one in found] == [rule.name for rule in rules]
