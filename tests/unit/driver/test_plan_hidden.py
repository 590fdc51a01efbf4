"""What the JSON of a plan leaves out, asked of a JVM that is made up."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.plan.expressions import Wording, tree_of
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.model.plan.text import text_of
from airflow_streaming.model.plan.tree import Tree

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
ON_TIME: dict[str, Any] = {"spark.watermarkDelayMs": 10_000}


def metadata(told: Any) -> SimpleNamespace:
    kind = SimpleNamespace(getName=lambda: "org.apache.spark.sql.types.Metadata")
    return SimpleNamespace(getClass=lambda: kind, json=lambda: json.dumps(told))


def alias(own: dict[str, Any] | None, of_column: dict[str, Any]) -> str:
    """Return the text of a column with an alias, each with its metadata; ``None`` for none."""
    told = [
        # Spark's JSON has an empty object for metadata of any kind.
        {"class": f"{EXPRESSIONS}Alias", "num-children": 1, "child": 0, "name": "at"}
        | ({} if own is None else {"explicitMetadata": {}}),
        {"class": f"{EXPRESSIONS}AttributeReference", "num-children": 0, "name": "ts"},
    ]
    column = SimpleNamespace(metadata=lambda: metadata(of_column))
    kind = SimpleNamespace(getName=lambda: "scala.Some")
    some = SimpleNamespace(getClass=lambda: kind, get=lambda: metadata(own))
    top = SimpleNamespace(child=lambda: column, explicitMetadata=lambda: some)
    tree = read_tree(json.dumps(told))
    return text_of(tree_of(tree, Wording(hidden=Hidden(top).placed(tree))))


@pytest.mark.parametrize(
    ("own", "of_column", "text"),
    [
        pytest.param(None, ON_TIME, "ts AS at", id="none"),
        pytest.param(ON_TIME, ON_TIME, "ts AS at", id="the column's"),
        pytest.param({"__dataset_id": 1}, {}, "ts AS at", id="of this run"),
        pytest.param(
            {"unit": "s"},
            ON_TIME,
            """ts[explicitMetadata={"unit": "s"}] AS at""",
            id="its own, without the event time",
        ),
        pytest.param({}, ON_TIME, "ts[explicitMetadata={}] AS at", id="empty"),
        pytest.param(
            {"unit": "s"}, {}, """ts[explicitMetadata={"unit": "s"}] AS at""", id="one more"
        ),
    ],
)
def test_metadata_of_an_alias_is_told_where_it_is_not_the_columns(
    own: dict[str, Any] | None, of_column: dict[str, Any], text: str
) -> None:
    assert alias(own, of_column) == text


def node(name: str, fields: dict[str, object], *children: Node) -> Node:
    return Node(name=name, index=0, fields=fields, children=children)


def literal(value: object) -> Node:
    return node("Literal", {"value": str(value), "dataType": "long"})


@pytest.mark.parametrize(
    ("name", "before", "fields"),
    [
        ("Rand", (), {"hideSeed": True}),
        ("Randn", (), {}),
        ("Uniform", (1, 9), {}),
        ("RandStr", (5,), {}),
    ],
)
def test_a_seed_that_each_planning_draws_does_not_count_and_other_arguments_do(
    name: str, before: tuple[int, ...], fields: dict[str, object]
) -> None:
    def tree(seed: int, more: int = 0) -> Tree:
        arguments = (*(literal(value + more) for value in before), literal(seed))
        return tree_of(node(name, fields, *arguments))

    assert tree(7) == tree(-8)
    assert not before or tree(7) != tree(7, more=1)


@pytest.mark.parametrize(
    ("name", "field", "counts"),
    [("Uuid", "randomSeed", False), ("Shuffle", "randomSeed", False), ("XxHash64", "seed", True)],
)
def test_a_seed_that_is_a_field_counts_of_a_hash_alone(name: str, field: str, counts: bool) -> None:
    one, other = (tree_of(node(name, {field: seed})) for seed in (7, 8))

    assert (one != other) is counts
