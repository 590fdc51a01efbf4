"""The wheel has what the package reads, and a commit builds the same bytes twice."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.nightly("The distribution is built twice.")
READ = (
    "airflow_streaming/gates/rules.toml",
    "airflow_streaming/monitoring/grafana/fleet.json",
    "airflow_streaming/monitoring/prometheus/alerts.yaml",
    "airflow_streaming/plugins/static/index.html",
    "airflow_streaming/py.typed",
)


def built(folder: Path) -> dict[str, bytes]:
    uv = REPOSITORY / ".venv/bin/uv"
    subprocess.run([uv, "build", "--quiet", "--out-dir", folder, REPOSITORY], check=True)
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".gitignore"
    }


def test_a_commit_builds_the_same_bytes_and_all_that_the_package_reads(tmp_path: Path) -> None:
    first, second = built(tmp_path / "first"), built(tmp_path / "second")

    assert first == second
    (wheel,) = (tmp_path / "first").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert set(READ) <= set(names)
    assert any(name.endswith("uPlot.LICENSE.txt") and "dist-info" in name for name in names)
