"""The topics that a plan can give a row: literals, branches of conditions, inputs of unions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_streaming.driver.output_places import column_texts
from airflow_streaming.driver.output_places.column_texts import texts_of
from airflow_streaming.driver.plan.nodes import read_tree

Tree = list[dict[str, Any]]


def made(node: str, *children: Tree, **fields: Any) -> Tree:
    top = {"class": f"spark.{node}", "num-children": len(children), **fields}
    return [top, *(node for child in children for node in child)]


def lit(value: str | None, type: str = "string") -> Tree:
    return made("Literal", value=value, dataType=type)


def attribute(id: int, name: str = "topic") -> Tree:
    return made("AttributeReference", name=name, exprId={"id": id})


def alias(child: Tree, id: int, name: str = "topic") -> Tree:
    return made("Alias", child, name=name, exprId={"id": id})


def project(child: Tree, *columns: Tree, of: str = "Project") -> Tree:
    field = "projectList" if of == "Project" else "aggregateExpressions"
    return made(of, child, **{field: list(columns)})


ROWS = made("LocalRelation")
CONDITION = made("IsNull", attribute(9, "key"))
A, B, C = lit("a"), lit("b"), lit("c")
CASE = made("CaseWhen", CONDITION, A, CONDITION, B, C)
INNER = project(ROWS, alias(A, 1))


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        pytest.param(INNER, ("a",), id="literal"),
        pytest.param(project(ROWS, alias(A, 1, "TOPIC")), ("a",), id="capitals"),
        pytest.param(project(ROWS, alias(CASE, 1)), ("a", "b", "c"), id="when"),
        pytest.param(
            project(ROWS, alias(made("CaseWhen", CONDITION, A), 1)), ("a",), id="no otherwise"
        ),
        pytest.param(
            project(ROWS, alias(made("If", CONDITION, A, lit(None)), 1)), ("a",), id="null"
        ),
        pytest.param(
            project(ROWS, alias(made("Nvl", made("Coalesce", CASE, lit("d"))), 1)),
            ("a", "b", "c", "d"),
            id="coalesce",
        ),
        pytest.param(
            project(made("Filter", INNER), alias(made("Cast", attribute(1)), 2)), ("a",), id="below"
        ),
        pytest.param(
            made("EventTimeWatermark", project(INNER, attribute(1))), ("a",), id="watermark"
        ),
        pytest.param(
            project(project(INNER, alias(CASE, 2), of="Aggregate"), attribute(2)),
            ("a", "b", "c"),
            id="aggregate",
        ),
        pytest.param(
            made("Union", INNER, made("Filter", project(ROWS, alias(B, 7)))), ("a", "b"), id="union"
        ),
        pytest.param(
            project(made("Union", INNER, project(ROWS, alias(B, 7))), attribute(1)),
            ("a", "b"),
            id="below a union",
        ),
        pytest.param(made("Union", INNER, ROWS), (), id="union with other rows"),
        pytest.param(
            project(ROWS, alias(made("CaseWhen", CONDITION, A, attribute(5)), 1)), (), id="else a column"
        ),
        pytest.param(project(ROWS, alias(made("Concat", A, B), 1)), (), id="computed"),
        pytest.param(project(ROWS, alias(lit("1", "integer"), 1)), (), id="number"),
        pytest.param(project(ROWS, alias(A, 1, "key")), (), id="no such column"),
        pytest.param(made("Join", INNER, ROWS), (), id="join"),
        pytest.param(project(ROWS, attribute(4)), (), id="column of the source"),
    ],
)  # fmt: skip
def test_the_texts_that_a_plan_can_give_a_column(tree: Tree, texts: tuple[str, ...]) -> None:
    assert texts_of(read_tree(json.dumps(tree)), "topic") == texts


def test_a_plan_made_in_a_loop_is_read_once_for_each_column() -> None:
    tree = INNER
    for number in range(2, 60):
        both = made("If", CONDITION, attribute(number - 1), attribute(number - 1))
        tree = project(tree, alias(both, number))

    assert texts_of(read_tree(json.dumps(tree)), "topic") == ("a",)


def test_a_column_with_too_many_texts_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_texts, "MOST", 2)

    assert texts_of(read_tree(json.dumps(project(ROWS, alias(CASE, 1)))), "topic") == ()
