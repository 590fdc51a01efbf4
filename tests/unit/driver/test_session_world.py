"""Inputs of the functions of a query, joined, and the digest of a temporary view."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from airflow_streaming.driver.plan.session_world import digest_of_plan, merged


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param(
            ({"file b": "1"}, {"file a": "2"}), {"file a": "2", "file b": "1"}, id="sorted"
        ),
        pytest.param(({"zone": "UTC"}, {"zone": "UTC"}), {"zone": "UTC"}, id="the_same_twice"),
        pytest.param(({"file a": "2"}, {"file a": "1"}), {"file a": "1+2"}, id="two_contents"),
        pytest.param(({"file a": "1"}, {"file a": "2"}), {"file a": "1+2"}, id="in_any_order"),
    ],
)
def test_inputs_of_several_functions_are_one_table(
    parts: tuple[dict[str, str], ...], whole: dict[str, str]
) -> None:
    found = merged(*parts)

    assert [*found.items()] == [*whole.items()]


def digest_of_view(
    *, made: str = "08:00", name: str = "services", rows: str = "OneRowRelation"
) -> str:
    nodes = [
        {"class": "plans.SubqueryAlias", "num-children": 1, "identifier": name, "child": 0},
        {"class": "plans.View", "num-children": 1, "desc": f"Created Time: {made}", "child": 0},
        {"class": f"plans.{rows}", "num-children": 0},
    ]
    return digest_of_plan(SimpleNamespace(toJSON=lambda: json.dumps(nodes)), None)


def test_a_view_counts_by_its_rows_and_not_by_the_time_of_its_making() -> None:
    assert digest_of_view() == digest_of_view(made="09:00") == digest_of_view(name="other")
    assert digest_of_view() != digest_of_view(rows="LocalRelation")
