"""Files that a text of the code names."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.code.code_world import files_named


@pytest.mark.parametrize(("size", "is_named"), [(259, True), (260, True), (261, False)])
def test_a_text_longer_than_a_path_names_no_file(
    tmp_path: Path, size: int, *, is_named: bool
) -> None:
    folder = "d" * 130
    name = f"{folder}/{'f' * (size - len(folder) - 1)}"
    (tmp_path / folder).mkdir()
    (tmp_path / name).write_text("1")

    found = [name for name, _ in files_named([name], [str(tmp_path)])]

    assert found == ([f"file {name}"] if is_named else [])


def test_a_file_of_code_is_no_data(tmp_path: Path) -> None:
    for name in ("a.py", "a.json"):
        (tmp_path / name).write_text("1")

    assert [name for name, _ in files_named(["a.py", "a.json"], [str(tmp_path)])] == ["file a.json"]
