"""Where a declarative pipeline keeps the checkpoints of its flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.pipeline_storage import MOST_FOLDERS, flows_in
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.exceptions import CheckpointError
from airflow_streaming.storage.folders import open_folders

AT = "_checkpoints/spark_catalog/default"


def add(storage: Path, *checkpoints: str) -> None:
    for path in checkpoints:
        (storage / path / "offsets").mkdir(parents=True)


def test_the_newest_version_of_each_flow_is_found(tmp_path: Path) -> None:
    add(tmp_path, f"{AT}/silver/silver/9", f"{AT}/silver/silver/10", f"{AT}/bronze/late_rows/0")
    add(tmp_path, f"{AT}/bronze/late_rows/new", "default/elsewhere/0")

    assert flows_in(open_folders(str(tmp_path))) == {
        "spark_catalog/default/bronze/late_rows": f"{AT}/bronze/late_rows/0",
        "spark_catalog/default/silver/silver": f"{AT}/silver/silver/10",
    }


def test_a_checkpoint_is_not_searched_for_more(tmp_path: Path) -> None:
    add(tmp_path, f"{AT}/silver/silver/0", f"{AT}/silver/silver/0/state/1")

    assert list(flows_in(open_folders(str(tmp_path))).values()) == [f"{AT}/silver/silver/0"]


def test_links_and_endless_folders_are_not_followed(tmp_path: Path) -> None:
    add(tmp_path, "elsewhere/silver/0")
    (tmp_path / "_checkpoints").mkdir()
    (tmp_path / "_checkpoints" / "linked").symlink_to(tmp_path / "elsewhere")
    add(tmp_path, "_checkpoints/" + "/".join("abcdefghijkl") + "/0")

    assert flows_in(open_folders(str(tmp_path))) == {}


def test_a_storage_of_too_many_folders_is_not_read_whole(tmp_path: Path) -> None:
    for number in range(MOST_FOLDERS + 10):
        (tmp_path / "_checkpoints" / f"t{number}").mkdir(parents=True)

    assert flows_in(open_folders(str(tmp_path))) == {}


def test_a_command_on_the_storage_names_the_flows(tmp_path: Path) -> None:
    add(tmp_path, f"{AT}/silver/silver/3")

    with pytest.raises(CheckpointError, match=rf"a folder of 1: {AT}/silver/silver/3"):
        inspect(str(tmp_path))
