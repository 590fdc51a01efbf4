"""The versions that the walkthrough tries are the application with some words changed."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import pytest

from demo.stage import APPLICATION
from demo.walkthrough import SHOP, VERSIONS, write_versions


def changed(version: Path) -> list[str]:
    """Return the lines that a version adds to the application."""
    lines = difflib.ndiff(APPLICATION.read_text().splitlines(), version.read_text().splitlines())
    return [line[2:].strip() for line in lines if line.startswith("+ ")]


def test_each_version_is_the_application_but_for_some_words(tmp_path: Path) -> None:
    written = write_versions(APPLICATION, tmp_path / "versions")

    assert written.keys() == VERSIONS.keys()
    for name, file in written.items():
        ast.parse(file.read_text())
        assert len(changed(file)) == len(VERSIONS[name].edits), name


def test_only_one_of_them_has_another_figure_in_the_state(tmp_path: Path) -> None:
    written = write_versions(APPLICATION, tmp_path)
    with_state = [name for name, file in written.items() if "F.max" in file.read_text()]
    assert with_state == ["largest_order"]


def test_an_application_without_those_words_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("print('another stream')\n")
    with pytest.raises(RuntimeError):
        write_versions(other, tmp_path / "versions")


def test_the_stream_that_is_changed_has_its_dags() -> None:
    example = (APPLICATION.parent.parent / "example_blue_green.py").read_text()
    assert f'shop("{SHOP}")' in example
