"""Whether a dag still keeps its stream, by what Airflow has of the dag's newest version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.plugin.api import add_dag, add_file, settings_of

pytestmark = pytest.mark.filterwarnings("ignore")
NO_TASK = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG({dag!r}, schedule=None):
    EmptyOperator(task_id="other")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("removal")
    with settings_of(folder) as patch:
        # A second version is stored at once, and not half a minute later.
        patch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")
        from airflow.utils.db import initdb

        initdb()
        yield folder


def test_a_stream_is_kept_until_its_dag_is_gone_or_has_another_version_without_it(
    folder: Path,
) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    from airflow_streaming.plugins.access.kept import all_kept, keeps_still

    for dag in ("leaves_its_dag", "loses_its_file", "stays"):
        add_dag(folder, dag, home=str(folder / "home"), stream=dag)
    with create_session() as session:
        before = {one.stream: one for one in all_kept(session)}
    kept = {name: before[name] for name in ("leaves_its_dag", "loses_its_file", "stays")}
    assert [keeps_still(one) for one in kept.values()] == [True] * 3
    assert not any(one.is_gone for one in kept.values())

    add_file(folder, "leaves_its_dag", NO_TASK.format(dag="leaves_its_dag"))
    with create_session() as session:
        session.get_one(DagModel, "loses_its_file").is_stale = True

    assert {name: keeps_still(one) for name, one in kept.items()} == {
        "leaves_its_dag": False,
        "loses_its_file": False,
        "stays": True,
    }
    with create_session() as session:
        after = {one.stream: one.is_gone for one in all_kept(session)}
    assert {name: after[name] for name in kept} == {
        "leaves_its_dag": False,
        "loses_its_file": True,
        "stays": False,
    }
