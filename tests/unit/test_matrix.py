"""The pure parts of scripts/matrix.py: pairs, outcomes and rows."""

from __future__ import annotations

import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def matrix() -> Any:
    spec = spec_from_file_location("matrix", REPOSITORY / "scripts/matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    import sys

    sys.modules["matrix"] = module
    spec.loader.exec_module(module)
    return module


def test_a_pair_names_airflow_python_and_the_resolution(matrix: Any) -> None:
    lowest = matrix.pair_of("3.3.0:3.11:lowest-direct")
    assert (lowest.airflow, lowest.python, lowest.resolution) == ("3.3.0", "3.11", "lowest-direct")
    assert matrix.pair_of("3.3.2:3.13").resolution == "highest"


@pytest.mark.parametrize("text", ["", "3.3:3.11", "3.3.2", "3.3.2:3.13:newest", "x:3.11"])
def test_another_form_is_refused(matrix: Any, text: str) -> None:
    with pytest.raises(ValueError, match="no pair"):
        matrix.pair_of(text)


def test_the_oldest_corner_is_the_lower_bound_of_the_package(matrix: Any) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    airflow = next(Requirement(one) for one in project["dependencies"] if "apache-airflow>=" in one)
    oldest = matrix.pair_of(matrix.CORNERS[0])
    assert str(airflow.specifier) == f">={oldest.airflow}"
    assert project["requires-python"] == f">={oldest.python}"
    assert oldest.resolution == matrix.LOWEST


@pytest.mark.parametrize(
    ("code", "output", "said"),
    [
        (0, "12 passed in 3 s", "| 3.3.2 | 3.13 | newest | 12 | passed | 2026-11-27 |"),
        (1, "1 failed, 11 passed in 3 s", "| 11 | 1 failed, 11 passed in 3 s |"),
        (0, "no tests ran", "| 0 | no tests ran |"),
        (2, "", "| 0 | no output |"),
    ],
)
def test_only_a_story_whose_tests_passed_is_passed(
    matrix: Any, code: int, output: str, said: str
) -> None:
    pair = matrix.pair_of("3.3.2:3.13")
    assert said in matrix.row(matrix.outcome_of(pair, code, output), "2026-11-27")


def test_every_file_of_the_story_exists(matrix: Any) -> None:
    assert [one for one in matrix.STORY if not (REPOSITORY / one).exists()] == []
