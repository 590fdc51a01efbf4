"""Joins whose rows serve another condition or type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.migration.kept_joins import EFFECT, keeps_rows
from airflow_streaming.gates.migration.migration import Subject, migration_of
from airflow_streaming.model.jobs.migration import Carry
from airflow_streaming.model.spark.plan import OperatorPlan
from tests.trees import operator_fields
from tests.unit.gates.change import builders as b


def a_join(**changes: Any) -> OperatorPlan:
    fields = {
        "join_type": "inner",
        "run_as": "inner",
        "left": b.columns("k string, ts timestamp"),
        "right": b.columns("j string, at timestamp"),
        "keys": b.columns("k string"),
        "key_expressions": ("k = j",),
        "condition": "((k = j) AND (at < (ts + interval 5 seconds)))",
    }
    operator = b.a_join().operators[0]
    return replace(operator, **operator_fields({**fields, **changes}))


LONGER = "((k = j) AND (at < (ts + interval 9 seconds)))"


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        (a_join(), a_join(condition=LONGER), True),
        (a_join(condition=LONGER), a_join(), True),
        (a_join(join_type="left_outer", run_as="left_outer"), a_join(), True),
        (a_join(), a_join(join_type="left_outer", run_as="left_outer"), False),
        (
            a_join(join_type="left_outer", run_as="left_outer"),
            a_join(join_type="left_outer", run_as="left_outer", condition=LONGER),
            False,
        ),
        (a_join(), a_join(condition="((k = j) AND (at < now))"), False),
        (a_join(), a_join(condition=None), True),
        (a_join(), a_join(key_expressions=("k = at",)), False),
        (a_join(), a_join(left=b.columns("k string, ts timestamp, v bigint")), False),
        (a_join(pushed=("(v > 1)",)), a_join(), False),
        (a_join(), a_join(right=b.columns("k string, at timestamp"), condition=LONGER), False),
    ],
    ids=[
        "longer bound",
        "shorter bound",
        "outer to inner",
        "inner to outer",
        "outer with a longer bound",
        "condition of one side",
        "without a condition",
        "other key",
        "other columns",
        "other filter in front",
        "name of both sides",
    ],
)
def test_an_inner_join_keeps_its_rows_for_another_condition_of_both_sides(
    old: OperatorPlan, new: OperatorPlan, is_kept: bool
) -> None:
    assert keeps_rows(old, new) is is_kept


def test_a_kept_join_continues_with_its_whole_state() -> None:
    old, new = (
        replace(b.a_join(), operators=(one,)) for one in (a_join(), a_join(condition=LONGER))
    )
    subject = Subject(
        old=old,
        new=new,
        checkpoint=b.a_checkpoint(operators=(b.an_operator("symmetricHashJoin"),)),
        schemas=(),
        findings=judge_change(old, new, None),
    )
    found = migration_of(subject, lambda one, other: judge_change(one, other, None))

    assert [(one.carry, one.source) for one in found.operators] == [(Carry.WHOLE, 0)]
    assert found.dropped == ()
    assert EFFECT in " ".join(found.consequences)
