"""Some of the repository's dags: to read all of them again and again costs Airflow more than to run a few."""

from __future__ import annotations

import shutil
from pathlib import Path

from demo.stage import REPOSITORY


def some_dags(folder: Path, *names: str) -> Path:
    """Copy dags by the names of their files, and all jobs, into a folder of dags that a test may edit."""
    dags = folder / "dags"
    shutil.copytree(REPOSITORY / "dags" / "jobs", dags / "jobs")
    for name in (".airflowignore", *(f"{name}.py" for name in names)):
        shutil.copy(REPOSITORY / "dags" / name, dags)
    return dags
