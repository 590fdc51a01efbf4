"""Operators that start without state, because the old one is of other rows or groups."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.migration.migration import Subject, migration_of
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.gates.migration.restarts import RESTARTING
from airflow_streaming.gates.rules import rule_named
from airflow_streaming.model.jobs.migration import Carry, StateMigration
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan
from tests.trees import operator_fields
from tests.unit.gates.change import builders as b

ENDLESS = b.an_aggregation(
    b.an_aggregate(keys=b.columns("k string"), key_expressions=("k",), window_us=(), ends=False),
    watermarks=(),
    output_mode="update",
    sink=b.a_sink("noop", "k string, total bigint, lines bigint"),
)
KEYED = (
    b.a_store_schema(key="k string", watermarks=()),
    b.a_store_schema(key="id string", value="__dummy__ void", watermarks=(), operator=1),
)


def migrated(
    old: QueryPlan,
    new: QueryPlan,
    *more: GateFinding,
    name: str = "stateStoreSave",
    format_: str = "2",
) -> StateMigration:
    operators = tuple(
        b.an_operator(name if at == 0 else "dedupe", id=at) for at in range(len(old.operators))
    )
    conf = {**b.CONF, "spark.sql.streaming.join.stateFormatVersion": format_}
    subject = Subject(
        old=old,
        new=new,
        checkpoint=b.a_checkpoint(operators=operators, conf=conf),
        schemas=KEYED,
        findings=[*judge_change(old, new, None), *more],
    )
    return migration_of(subject, lambda one, other: judge_change(one, other, None))


def deduplicated(plan: QueryPlan) -> QueryPlan:
    """Return a plan with a deduplication in front."""
    keys = b.columns("id string")
    fields = {"sort": OperatorKind.DEDUPLICATE, "keys": keys, "key_expressions": ("id",)}
    return replace(plan, operators=(*plan.operators, OperatorPlan(**operator_fields(fields))))


class Case(NamedTuple):
    name: str
    old: QueryPlan
    new: QueryPlan
    says: str
    operator: str = "stateStoreSave"


CASES = (
    Case(
        "another filter in front of endless groups",
        b.with_steps(ENDLESS, ("filter", "(v > 1)", 1)),
        b.with_steps(ENDLESS, ("filter", "(v > 2)", 1)),
        "rows that other code has read or filtered: its groups hold only rows that are read after",
    ),
    Case(
        "another way to read",
        b.with_options(ENDLESS, timestampFormat="yyyy"),
        b.with_options(ENDLESS, timestampFormat="yy"),
        "rows that other code has read or filtered",
    ),
    Case(
        "another window",
        b.an_aggregation(),
        b.an_aggregation(b.an_aggregate(window_us=(30_000_000, 30_000_000, 0))),
        "holds other groups",
    ),
    Case(
        "another gap of sessions",
        b.a_session(),
        b.a_session("9 seconds"),
        "its sessions hold only rows that are read after the migration",
        "sessionWindowStateStoreSaveExec",
    ),
    Case(
        "another key of a join",
        b.a_join(),
        b.a_join(operator={"keys": b.columns("v bigint"), "key_expressions": ("v@0 = v@1",)}),
        "rows from before the migration find no partner any more",
        "symmetricHashJoin",
    ),
    Case(
        "another state of a function",
        b.a_stateful_function(),
        b.a_stateful_function(state_schema="n bigint, m bigint"),
        "the function sees each key for the first time",
        "applyInPandasWithState",
    ),
    Case(
        "another time mode",
        b.a_processor(),
        b.a_processor(time_mode="ProcessingTime"),
        "its timers are gone",
        "transformWithStateInPandasExec",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_operator_whose_old_state_is_of_other_rows_starts_anew(case: Case) -> None:
    found = migrated(case.old, case.new, name=case.operator)

    (operator,) = found.operators
    assert (operator.carry, operator.source, operator.name) == (Carry.EMPTY, None, case.operator)
    assert operator.columns == ()
    assert operator.time_mode == case.new.operators[0].time_mode
    (consequence,) = found.consequences
    assert consequence.startswith("Operator 0 (")
    assert case.says in consequence


@pytest.mark.parametrize(
    ("below", "carries"),
    [(1, [Carry.EMPTY, Carry.WHOLE]), (2, [Carry.EMPTY, Carry.EMPTY])],
    ids=["behind the deduplication", "in front of both"],
)
def test_operators_beneath_the_change_keep_their_state(below: int, carries: list[Carry]) -> None:
    old, new = (
        b.with_steps(deduplicated(ENDLESS), ("filter", f"(v > {bound})", below)) for bound in (1, 2)
    )
    found = migrated(old, new)

    assert [one.carry for one in found.operators] == carries
    assert [one.source for one in found.operators] == [
        None if carry is Carry.EMPTY else at for at, carry in enumerate(carries)
    ]


def test_an_operator_above_one_that_starts_anew_starts_anew() -> None:
    old = deduplicated(ENDLESS)
    keys = b.columns("other string")
    below = replace(
        old.operators[1],
        keys=keys,
        key_expressions=b.a_deduplication("other string").operators[0].key_expressions,
    )
    found = migrated(old, replace(old, operators=(old.operators[0], below)))

    assert [one.carry for one in found.operators] == [Carry.EMPTY, Carry.EMPTY]


def test_an_unknown_finding_about_an_operator_that_starts_anew_is_no_reason() -> None:
    old = b.a_stateful_function()
    new = b.a_stateful_function(keys=b.columns("u string"), key_expressions=("u",), code="other")
    unknown = rule_named("user_state.function").found(evidence="the plans")

    assert (
        migrated(old, new, unknown, name="applyInPandasWithState").operators[0].carry is Carry.EMPTY
    )


def test_any_other_unknown_finding_forbids_the_start() -> None:
    new = b.an_aggregation(b.an_aggregate(window_us=(30_000_000, 30_000_000, 0)))
    unknown = rule_named("code.reads_before_state").found(evidence="the plans")

    with pytest.raises(NoMigration, match=r"code\.reads_before_state is unknown"):
        migrated(b.an_aggregation(), new, unknown)


def test_a_join_of_another_state_format_does_not_start_anew() -> None:
    new = b.a_join(operator={"keys": b.columns("v bigint"), "key_expressions": ("v@0 = v@1",)})

    with pytest.raises(NoMigration, match="state format"):
        migrated(b.a_join(), new, name="symmetricHashJoin", format_="3")


def test_variables_beside_another_operator_do_not_start_anew() -> None:
    old, new = (
        deduplicated(b.a_processor(time_mode=mode)) for mode in ("NoTime", "ProcessingTime")
    )
    with pytest.raises(NoMigration, match="beside other operators"):
        migrated(old, new, name="transformWithStateInPandasExec")


def test_every_rule_that_a_start_lifts_exists() -> None:
    assert {rule_named(rule).name for rule in RESTARTING} == set(RESTARTING)
