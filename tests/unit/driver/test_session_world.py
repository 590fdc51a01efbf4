"""Inputs of the functions of a query, joined."""

from __future__ import annotations

import pytest

from airflow_streaming.driver.plan.session_world import merged


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
