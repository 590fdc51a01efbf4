"""The migration of a refused change: where each operator and column of the new state comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.migration.migration import Subject, migration_of
from airflow_streaming.gates.migration.migration_columns import NoMigration
from airflow_streaming.model.jobs.migration import Carry, Move, StateMigration
from airflow_streaming.model.plan.tree import Expr
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan
from tests.trees import operator_fields, trees
from tests.unit.gates.change import builders as b

KEEPS = ("keep", "keep")
BOTH = ("sum", 0, "keep"), ("count", 1, "keep")


def migrated(old: QueryPlan, new: QueryPlan, **changes: Any) -> StateMigration:
    checkpoint = changes.pop("checkpoint", b.a_checkpoint())
    schemas = changes.pop("schemas", (b.a_store_schema(),))
    subject = Subject(
        old=old,
        new=new,
        checkpoint=checkpoint,
        schemas=schemas,
        findings=judge_change(old, new, None),
    )
    return migration_of(subject, lambda one, other: judge_change(one, other, None))


def why_not(old: QueryPlan, new: QueryPlan, **changes: Any) -> str:
    with pytest.raises(NoMigration) as refused:
        migrated(old, new, **changes)
    return str(refused.value)


def why_anew(old: QueryPlan, new: QueryPlan, **changes: Any) -> str:
    """Return why the only operator starts without state."""
    found = migrated(old, new, **changes)
    assert [(one.carry, one.source) for one in found.operators] == [(Carry.EMPTY, None)]
    (consequence,) = found.consequences
    return consequence


def aggregating(values: str, types: tuple[str, ...], outputs: tuple[str, ...]) -> QueryPlan:
    """Return an aggregation whose every aggregate arrives at the sink."""
    operator = b.an_aggregate(values=tuple(values.split(", ")), value_types=types, outputs=outputs)
    schema = ", ".join(f"{name} {type_}" for name, type_ in zip(outputs, types, strict=True))
    return b.an_aggregation(operator, steps=(), sink=b.a_sink("noop", f"k string, {schema}"))


OLD = aggregating("sum(v), count(1)", ("bigint", "bigint"), ("total", "lines"))


class Case(NamedTuple):
    name: str
    values: str
    types: tuple[str, ...]
    expected: tuple[tuple[str, int | None, str, str | None], ...]


CASES = (
    Case(
        "added at the end",
        "sum(v), count(1), min(v)",
        ("bigint", "bigint", "bigint"),
        (
            ("sum", 0, "keep", None),
            ("count", 1, "keep", None),
            ("min", None, "add", "NULL"),
        ),
    ),
    Case(
        "added in front",
        "count(v), sum(v), count(1)",
        ("bigint", "bigint", "bigint"),
        (
            ("count", None, "add", "0"),
            ("sum", 0, "reorder", None),
            ("count", 1, "reorder", None),
        ),
    ),
    Case("removed", "count(1)", ("bigint",), (("count", 1, "reorder", None),)),
    Case(
        "reordered",
        "count(1), sum(v)",
        ("bigint", "bigint"),
        (("count", 1, "reorder", None), ("sum", 0, "reorder", None)),
    ),
    Case(
        "another function of the same type",
        "max(v), count(1)",
        ("bigint", "bigint"),
        (("max", None, "add", "NULL"), ("count", 1, "keep", None)),
    ),
    Case(
        "a mean, which keeps two columns",
        "avg(v), count(1)",
        ("double", "bigint"),
        (
            ("sum", None, "add", "0"),
            ("count", None, "add", "0"),
            ("count", 1, "reorder", None),
        ),
    ),
    Case(
        "a decimal sum, which keeps whether it is empty",
        "sum(v), count(1), sum(price)",
        ("bigint", "bigint", "decimal(20,2)"),
        (
            ("sum", 0, "keep", None),
            ("count", 1, "keep", None),
            ("sum", None, "add", "0"),
            ("isEmpty", None, "add", "TRUE"),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_column_of_the_new_state_has_a_source_or_an_initial_value(case: Case) -> None:
    outputs = tuple(f"c{place}" for place in range(len(case.types)))
    found = migrated(OLD, aggregating(case.values, case.types, outputs))

    (operator,) = found.operators
    assert operator.carry is Carry.COLUMNS
    assert operator.source == 0
    assert tuple(column.move.value for column in operator.key) == KEEPS
    shown = tuple((c.name, c.source, c.move.value, c.initial) for c in operator.value)
    assert shown == case.expected


def test_a_lost_and_a_new_aggregate_are_consequences() -> None:
    new = aggregating("sum(v), min(v)", ("bigint", "bigint"), ("total", "least"))

    assert migrated(OLD, new).consequences == (
        "min(v) starts anew: its value covers only rows that are read after the migration.",
        "The value of count(1) is lost.",
    )


def test_a_wider_result_widens_its_column() -> None:
    old = aggregating("max(v), count(1)", ("int", "bigint"), ("most", "lines"))
    new = aggregating("max(v), count(1)", ("bigint", "bigint"), ("most", "lines"))
    schemas = (b.a_store_schema(value="max int, count bigint"),)

    (operator,) = migrated(old, new, schemas=schemas).operators
    assert (operator.value[0].move, operator.value[0].type) == (Move.WIDEN, "bigint")


def test_a_narrower_result_starts_anew() -> None:
    old = aggregating("max(v), count(1)", ("bigint", "bigint"), ("most", "lines"))
    new = aggregating("max(v), count(1)", ("int", "bigint"), ("most", "lines"))
    schemas = (b.a_store_schema(value="max bigint, count bigint"),)

    assert "cannot hold every value" in why_anew(old, new, schemas=schemas)


def test_state_that_is_not_of_the_recorded_plan_has_no_migration() -> None:
    new = aggregating("sum(v)", ("bigint",), ("total",))

    for value in ("max bigint, count bigint", "count bigint, sum bigint", "sum bigint"):
        schemas = (b.a_store_schema(value=value),)
        assert "not the aggregates of the recorded plan" in why_not(OLD, new, schemas=schemas)
    other_key = (b.a_store_schema(key="window string, k string"),)
    assert "not the keys" in why_not(OLD, new, schemas=other_key)
    assert "could not be read" in why_not(OLD, new, schemas=())


def of_keys(*names: str, **changes: Any) -> QueryPlan:
    """Return an endless aggregation by some columns."""
    operator = b.an_aggregate(
        keys=b.columns(", ".join(f"{name} string" for name in names)),
        key_expressions=names,
        window_us=(),
        ends=False,
        **changes,
    )
    schema = "total bigint, lines bigint"
    return b.an_aggregation(
        operator, steps=(), watermarks=(), output_mode="update", sink=b.a_sink("noop", schema)
    )


KEYED = (b.a_store_schema(key="a string, b string", watermarks=()),)


def test_keys_in_another_order_are_reordered() -> None:
    (operator,) = migrated(of_keys("a", "b"), of_keys("b", "a"), schemas=KEYED).operators

    assert [(c.name, c.source, c.move) for c in operator.key] == [
        ("b", 1, Move.REORDER),
        ("a", 0, Move.REORDER),
    ]


def test_groups_are_merged_where_a_key_is_dropped() -> None:
    found = migrated(of_keys("a", "b"), of_keys("b"), schemas=KEYED)

    (operator,) = found.operators
    assert operator.is_merged
    assert [(c.source, str(c.merge)) for c in operator.value] == [(0, "sum"), (1, "sum")]
    assert "become one group" in found.consequences[0]


def test_groups_of_an_aggregate_that_is_not_additive_start_anew_without_a_key() -> None:
    values = {"values": ("first(v)",), "value_types": ("bigint",), "outputs": ("total",)}
    schemas = (b.a_store_schema(key="a string, b string", value="first bigint, valueSet boolean"),)

    why = why_anew(of_keys("a", "b", **values), of_keys("b", **values), schemas=schemas)
    assert "of several groups" in why


def test_a_new_key_waits_for_a_value_that_a_user_declares() -> None:
    found = migrated(of_keys("a", "b"), of_keys("a", "b", "c"), schemas=KEYED)

    assert [(key.source, key.move, key.initial) for key in found.operators[0].key] == [
        (0, Move.KEEP, None),
        (1, Move.KEEP, None),
        (None, Move.ADD, None),
    ]
    assert [key.of for key in found.undeclared()] == ["c"]
    assert "with the declared c" in " ".join(found.consequences)


def test_groups_of_a_key_in_the_place_of_another_start_anew() -> None:
    assert "is new" in why_anew(of_keys("a", "b"), of_keys("a", "c"), schemas=KEYED)


def test_groups_start_anew_where_the_window_is_dropped_from_the_keys() -> None:
    new = b.with_operator(
        OLD,
        keys=b.columns("k string"),
        key_expressions=("k",),
        window_us=(20_000_000, 20_000_000, 0),
    )
    assert "lacks ended windows" in why_anew(OLD, new)


def chained(*operators: OperatorPlan) -> QueryPlan:
    return replace(OLD, operators=operators)


def a_dedupe(*names: str) -> OperatorPlan:
    keys = b.columns(", ".join(f"{name} string" for name in names))
    return OperatorPlan(
        **operator_fields(
            {"sort": OperatorKind.DEDUPLICATE, "keys": keys, "key_expressions": names}
        )
    )


def test_an_operator_that_is_inserted_starts_empty_and_the_other_keeps_its_state() -> None:
    aggregate = OLD.operators[0]
    found = migrated(OLD, chained(aggregate, a_dedupe("k")))

    assert [(o.carry, o.source) for o in found.operators] == [(Carry.WHOLE, 0), (Carry.EMPTY, None)]
    assert found.dropped == ()


def test_an_operator_that_is_removed_moves_the_others_down() -> None:
    aggregate = OLD.operators[0]
    stored = b.a_checkpoint(
        operators=(b.an_operator("dedupe"), b.an_operator("stateStoreSave", id=1))
    )
    schemas = (b.a_store_schema(operator=1),)
    found = migrated(chained(a_dedupe("k"), aggregate), OLD, checkpoint=stored, schemas=schemas)

    (operator,) = found.operators
    assert (operator.carry, operator.source, operator.operator) == (Carry.WHOLE, 1, 0)
    assert operator.name == "stateStoreSave"
    assert found.dropped == (0,)


def test_two_operators_alike_cannot_be_told_apart() -> None:
    old = chained(a_dedupe("k"), a_dedupe("k"))
    assert "alike" in why_not(old, chained(a_dedupe("k")))


def test_what_the_removed_operator_hides_still_forbids_the_change() -> None:
    old = b.with_steps(chained(OLD.operators[0], a_dedupe("k")), ("filter", "(v > 1)", 2))
    new = b.with_steps(OLD, ("filter", "(v > 2)", 1))
    old, new = (
        replace(old, watermarks=(), output_mode="update"),
        replace(new, watermarks=(), output_mode="update"),
    )

    assert "step.filter_before_endless_state" in why_not(old, new)


def test_a_refusal_by_another_rule_has_no_migration() -> None:
    new = b.with_source(aggregating("sum(v)", ("bigint",), ("total",)), paths=("/other",))
    assert "source.paths" in why_not(OLD, new)


def test_state_in_another_form_has_no_migration() -> None:
    new = aggregating("sum(v)", ("bigint",), ("total",))
    for changes, reason in (
        ({"state_format": 2}, "checkpoint format 2"),
        ({"operators": (b.an_operator(None),)}, "Spark 3.5 or older"),
        (
            {"conf": {**b.CONF, "spark.sql.streaming.stateStore.encodingFormat": "avro"}},
            "encoding 'avro'",
        ),
    ):
        assert reason in why_not(OLD, new, checkpoint=b.a_checkpoint(**changes))


def test_an_older_spark_offers_two_steps() -> None:
    new = replace(aggregating("sum(v)", ("bigint",), ("total",)), spark="4.1.4")
    assert "Upgrade Spark to 4.2" in why_not(replace(OLD, spark="4.1.4"), new)


def test_fewer_deduplicated_columns_merge_their_rows() -> None:
    old, new = chained(a_dedupe("a", "b")), chained(a_dedupe("b"))
    schemas = (b.a_store_schema(key="a string, b string", value="__dummy__ void"),)
    stored = b.a_checkpoint(operators=(b.an_operator("dedupe"),))

    (operator,) = migrated(old, new, schemas=schemas, checkpoint=stored).operators
    assert operator.is_merged
    assert [c.source for c in operator.key] == [1]


def test_a_new_aggregate_with_options_starts_its_operator_anew() -> None:
    sums = Expr("sum", trees("x"), options={"evalContext": "TRY"})
    operator = replace(
        OLD.operators[0],
        values=(*OLD.operators[0].values, sums),
        value_types=("bigint", "bigint", "bigint"),
        output_names=(("total",), ("lines",), ("more",)),
    )
    new = b.with_sink(
        chained(operator), schema=b.columns("k string, total bigint, lines bigint, more bigint")
    )

    assert "with its options is not known" in why_anew(OLD, new)
