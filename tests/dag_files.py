"""Dag files, read as Airflow's dag processor reads them."""

from __future__ import annotations

from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG


def dags_in(file: Path) -> dict[str, DAG]:
    """
    Return the dags of a file by their ids.

    :raises AssertionError: it cannot be imported, a dag of it is refused, or Airflow warns of it.
    """
    bag = DagBag(dag_folder=file, collect_dags=False)
    bag.process_file(str(file), safe_mode=False)
    assert not bag.import_errors, "\n".join(bag.import_errors.values())
    assert not bag.captured_warnings, bag.captured_warnings
    return bag.dags
