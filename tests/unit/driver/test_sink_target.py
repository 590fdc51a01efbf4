"""Where the path of a sink leads, by its spelling and the default file system."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.output_places.sink_target import default_fs, resolved
from airflow_streaming.model.spark.plan import SinkPlan

NAMENODE = "hdfs://nn:8020"


def real_path(target: str, usual_fs: str) -> str:
    sink = SinkPlan(sink="file", format="parquet", target=target)
    return resolved(sink, None, usual_fs).real_path


@pytest.mark.parametrize(
    ("target", "usual_fs", "leads_to"),
    [
        ("out", "file:///", ""),
        ("out", NAMENODE, ""),
        ("/nowhere/out", "file:///", ""),
        ("/nowhere/out", NAMENODE, f"{NAMENODE}/nowhere/out"),
        ("/nowhere/out", f"{NAMENODE}/", f"{NAMENODE}/nowhere/out"),
        ("s3a://bucket/out", NAMENODE, ""),
        ("file:///nowhere/out", NAMENODE, ""),
    ],
)
def test_a_path_without_a_scheme_leads_to_the_default_file_system(
    target: str, usual_fs: str, leads_to: str
) -> None:
    assert real_path(target, usual_fs) == leads_to


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_link_leads_to_its_folder(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert real_path(f"{scheme}{tmp_path}/link/day", "file:///") == f"{tmp_path}/real/day"
    assert real_path(f"{scheme}{tmp_path}/real/../real", "file:///") == ""


@pytest.mark.parametrize(("set_to", "found"), [(NAMENODE, NAMENODE), (None, "file:///")])
def test_the_default_file_system_is_that_of_hadoop(set_to: str | None, found: str) -> None:
    conf = {"fs.defaultFS": set_to}
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: conf))

    assert default_fs(context) == found
