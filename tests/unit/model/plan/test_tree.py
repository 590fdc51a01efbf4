"""Expressions of plans as trees, their JSON form and their text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import (
    COLUMN_MARK,
    CUT,
    LITERAL,
    MAX_DEPTH,
    ColumnRef,
    Expr,
    Tree,
    columns_in,
    conjuncts,
    items_of,
    literal,
    replaced,
    used_in,
    with_texts,
)
from tests.trees import tree, trees


@pytest.mark.parametrize(
    "text",
    [
        "k",
        "`v (EUR)`@1",
        "((v + 1) AND (k = 'it''s'))",
        "(v * 2) AS `v (EUR)`",
        "sum(v) FILTER (WHERE (v > 1))",
        "cast(v as decimal(10,2))",
        "f(o.a, o.`b c`, o.1, NULL, true, 1.5)",
        "window(ts, length=20 seconds, slide=10 seconds)",
    ],
)
def test_a_tree_keeps_its_text_and_survives_its_json_form(text: str) -> None:
    found = tree(text.replace("length=", "").replace("slide=", ""))

    again = Tree.from_json(json.loads(json.dumps(found.to_json())), "here")

    assert text_of(found) == text
    assert (again, hash(again), text_of(again)) == (found, hash(found), text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ColumnRef("k"), ColumnRef("k", 0)),
        (ColumnRef("k"), literal("k", "string")),
        (literal("1", "int"), literal("1", "bigint")),
        (literal(None, "int"), literal("NULL", "string")),
        (literal("", "string"), literal(None, "string")),
        (tree("(a - b)"), tree("(b - a)")),
        (tree("f(a)"), tree("g(a)")),
        (Expr("f", options={"a": "b"}), Expr("f", options={"a": "c"})),
        (Expr("f", type="int"), Expr("f", type="bigint")),
        (Expr("f", [Expr("g")]), Expr("f", [], options={"g": ""})),
        (ColumnRef(Expr("f").digest.strip()), Expr("f")),
    ],
)
def test_trees_differ_by_every_part_of_them(one: Tree, other: Tree) -> None:
    assert one != other


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("k, (v + 1) AS w", {"k": "k", "w": "(v + 1)"}),
        ("f(', (') AS c, d AS `it's`", {"c": "f(', (')", "`it's`": "d"}),
        ("k@0, k@1", {"k@0": "k@0", "k@1": "k@1"}),
        ("v AS w, k AS w", None),
        ("(v + 1)", None),
    ],
)
def test_a_projection_computes_each_column_once(text: str, items: dict[str, str] | None) -> None:
    found = items_of(trees(text))

    shown = found and {text_of(name): text_of(way) for name, way in found.items()}
    assert shown == items


@pytest.mark.parametrize(
    ("text", "name", "is_used"),
    [
        ("sum(v)", ColumnRef("v"), True),
        ("sum(vv)", ColumnRef("v"), False),
        ("f('v')", ColumnRef("v"), False),
        ("o.v", ColumnRef("v"), False),
        ("k AS v", ColumnRef("v"), False),
        ("v@1", ColumnRef("v"), True),
        ("v", ColumnRef("v", 1), True),
        ("v@1", ColumnRef("v", 0), False),
        ("v@1", ColumnRef("v", 1), True),
    ],
)
def test_a_column_is_used_by_its_name_and_source(text: str, name: ColumnRef, is_used: bool) -> None:
    assert (used_in([tree(text)], [name]) == {name}) is is_used


@pytest.mark.parametrize(
    "hiding", [Expr(CUT, options={"digest": "1"}), Expr("f", options={"g": f"x{COLUMN_MARK}"})]
)
def test_a_tree_that_is_not_whole_may_use_any_column(hiding: Tree) -> None:
    assert used_in([Expr("f", [hiding])], [ColumnRef("v")]) is None
    assert columns_in([ColumnRef("k"), hiding]) is None
    assert columns_in([Expr(LITERAL, options={"value": f"x{COLUMN_MARK}"})]) == []


def test_the_metadata_of_a_column_is_part_of_its_expression() -> None:
    plain = Expr("alias", [ColumnRef("k")], options={"name": "w"})
    marked = Expr("alias", [ColumnRef("k")], options={"name": "w", "metadata": "{}"})

    old, new = (items_of([one]) for one in (plain, marked))

    assert old != new
    assert old is not None
    assert new is not None
    assert old.keys() == new.keys() == {ColumnRef("w")}
    assert [*map(text_of, new.values())] == ["k[metadata={}]"]


def test_columns_come_in_the_order_of_the_text() -> None:
    assert columns_in(trees("f(b, (a + b)), c")) == [*map(ColumnRef, "bac")]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("((a AND b) AND (c OR d))", ["a", "b", "(c OR d)"]),
        ("(a OR b)", ["(a OR b)"]),
        ("f(' AND ', a)", ["f(' AND ', a)"]),
    ],
)
def test_the_conditions_that_must_all_hold(text: str, parts: list[str]) -> None:
    assert [*map(text_of, conjuncts(tree(text)))] == parts


def test_parts_and_texts_of_a_tree_can_be_replaced() -> None:
    found = replaced(
        tree("f(g(a), b)"), lambda one: ColumnRef("c") if one == tree("g(a)") else None
    )

    assert found == tree("f(c, b)")
    moved = with_texts(tree("f('/blue/out', a)"), lambda text: text.replace("/blue", "/green"))
    assert moved == tree("f('/green/out', a)")


@pytest.mark.parametrize(
    "told", [1, None, ["k"], {"op": "f", "args": "k"}, {"op": "f", "options": ["a"]}]
)
def test_a_malformed_tree_is_refused(told: Any) -> None:
    with pytest.raises(RecordError, match="here"):
        Tree.from_json(told, "here")


def test_a_tree_that_is_too_deep_is_refused_and_does_not_end_python() -> None:
    told: Any = "k"
    for _ in range(MAX_DEPTH + 2):
        told = {"op": "f", "args": [told]}

    with pytest.raises(RecordError, match="expected an expression"):
        Tree.from_json(told, "here")
