from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest
from airflow.sdk import DAG, Param

from demo.pipelines import PIPELINES, listing
from tests.conftest import REPOSITORY
from tests.dag_files import dags_in
from tests.documents import imported

EXAMPLES: Final = sorted(
    path for path in (REPOSITORY / "dags").rglob("*.py") if path.parent.name != "jobs"
)
DAG_FILES: Final = [*EXAMPLES, *sorted(REPOSITORY.glob("tests/system/dags/*.py"))]
PUBLIC: Final = frozenset(
    {"spec", "options", "operators", "sensors", "notifications", "orchestration"}
    | {"assets", "live", "pointers"}
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


def inner_rooms(source: str) -> list[str]:
    """Return what a dag file imports of the provider that is not its public face."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            room, _, module = rest.partition(".")
            if package == "airflow_streaming" and rest and (room not in PUBLIC or "." in module):
                found.append(name)
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(path: Path) -> None:
    assert inner_rooms(path.read_text()) == []


def test_an_import_of_an_inner_room_is_found() -> None:
    inner = ["airflow_streaming.model.names", "airflow_streaming.operators.common.cutover_checks"]
    public = ["airflow_streaming.spec", "airflow_streaming.operators.stream"]
    source = "\n".join(f"from {module} import A" for module in (*public, *inner))

    assert inner_rooms(source) == inner


@pytest.mark.parametrize("path", sorted((REPOSITORY / "dags").rglob("jobs/*.py")), ids=str)
def test_a_script_of_spark_knows_nothing_of_what_runs_it(path: Path) -> None:
    tops = {name.partition(".")[0] for name in imported(path.read_text())}

    assert not {"airflow", "airflow_streaming", "demo", "tests"} & tops


@pytest.mark.parametrize("name", [*PIPELINES])
def test_every_example_that_the_demo_starts_has_a_dag_and_a_page(name: str) -> None:
    folder = REPOSITORY / "dags" / name

    assert (folder / f"{name}.py").is_file()
    assert (folder / "README.md").is_file()
    assert name in listing()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_airflow_imports_an_example_whose_dags_and_forms_explain_themselves(path: Path) -> None:
    dags = dags_in(path)

    assert dags
    assert [name for name, dag in dags.items() if not dag.doc_md] == []
    assert [name for dag in dags.values() for name in unexplained(dag)] == []


def unexplained(dag: DAG) -> list[str]:
    """Return the fields of a dag's form without a title or a description."""
    fields = {name: dag.params.get_param(name) for name in dag.params}
    return [
        f"{dag.dag_id}.{name}"
        for name, one in fields.items()
        if "title" not in one.schema
        or not (one.description or {"description", "description_md"} & {*one.schema})
    ]


def test_a_field_of_a_form_that_says_nothing_is_found() -> None:
    with DAG(
        "x", schedule=None, params={"a": Param(1, title="A"), "b": Param(1, description="b")}
    ) as dag:
        pass

    assert unexplained(dag) == ["x.a", "x.b"]
