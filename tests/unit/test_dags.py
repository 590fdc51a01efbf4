from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

DAG_FILES = sorted(
    [*(REPOSITORY / "dags").glob("*.py"), *REPOSITORY.glob("tests/system/dags/*.py")]
)


def dag_calls(path: Path) -> list[dict[str, ast.expr]]:
    """Return the keyword arguments of every ``DAG(...)`` in a file."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [
        {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "DAG"
    ]


@pytest.mark.parametrize("path", DAG_FILES, ids=lambda path: path.stem)
def test_a_continuous_dag_has_a_start_date_so_that_it_gets_a_second_run(path: Path) -> None:
    calls = dag_calls(path)

    assert calls or "stream_dags(" in path.read_text()
    for keywords in calls:
        if ast.unparse(keywords["schedule"]) == "'@continuous'":
            assert "start_date" in keywords
            assert ast.unparse(keywords["max_active_runs"]) == "1"
