"""How a run reads what was filled into a templated mapping or list."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.literals import (
    mapping_of,
    mapping_or_template,
    texts_of,
    texts_or_template,
)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        (None, {}),
        ("", {}),
        (" ", {}),
        ({}, {}),
        ("{}", {}),
    ],
)
def test_a_mapping(given: Any, read: dict[str, Any]) -> None:
    assert mapping_of(given, "conf") == read


@pytest.mark.parametrize(
    ("given", "read"),
    [(["a", 1], ["a", "1"]), (("a",), ["a"]), ('["a", 1]', ["a", "1"]), ("", []), (None, [])],
)
def test_a_list_of_texts(given: Any, read: list[str]) -> None:
    assert texts_of(given, "application_args") == read


@pytest.mark.parametrize("given", ["hunter2", "[1]", "5", '"x"', {5: "x"}, ["x"], "None", "null"])
def test_what_is_no_mapping_is_refused_and_not_repeated(given: Any) -> None:
    with pytest.raises(SpecError, match=r"^conf is not a mapping") as refused:
        mapping_of(given, "conf")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("given", ["--fast", "{}", "5", {"a": 1}])
def test_what_is_no_list_is_refused(given: Any) -> None:
    with pytest.raises(SpecError, match=r"^args is not a list"):
        texts_of(given, "args")


def test_a_template_stays_for_the_run() -> None:
    assert mapping_or_template("{{ params.conf }}", "conf") == "{{ params.conf }}"
    assert texts_or_template("{{ params.args }}", "args") == "{{ params.args }}"
    assert mapping_or_template({"a": "{{ x }}"}, "conf") == {"a": "{{ x }}"}
    with pytest.raises(SpecError):
        mapping_or_template("spark.x=1", "conf")
