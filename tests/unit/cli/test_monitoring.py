"""The dashboards and alert rules come with the package."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main


def test_it_writes_the_files_of_the_package(tmp_path: Path) -> None:
    assert main(["monitoring", "--write", str(tmp_path)]) == 0

    assert json.loads((tmp_path / "grafana/fleet.json").read_text())["uid"] == "streams-fleet"
    assert "StreamingRuleFires" in (tmp_path / "prometheus/alerts.yaml").read_text()


def test_it_lists_them_without_writing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitoring"]) == 0

    assert "prometheus/alerts.yaml" in capsys.readouterr().out.splitlines()


def test_a_folder_writes_no_escape_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["monitoring", "--write", str(tmp_path / "\x1b[31mred\u202e")]) == 0

    assert not {"\x1b", "\u202e"} & {*capsys.readouterr().out}


def test_a_file_that_was_edited_stays_unless_it_is_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = tmp_path / "prometheus/alerts.yaml"
    edited.parent.mkdir()
    edited.write_bytes(b"mine \xff")

    assert main(["monitoring", "--write", str(tmp_path)]) == 2
    assert str(edited) in capsys.readouterr().err
    assert edited.read_bytes() == b"mine \xff"
    assert not (tmp_path / "grafana").exists()

    assert main(["monitoring", "--write", str(tmp_path), "--force"]) == 0
    assert "StreamingRuleFires" in edited.read_text()
    assert main(["monitoring", "--write", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda place: place.mkdir(), id="folder"),
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(lambda place: place.symlink_to("elsewhere"), id="dangling link"),
    ],
)
def test_a_place_that_is_not_a_file_stops_it_before_the_first_write(
    tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "grafana/fleet.json"
    place.parent.mkdir()
    make(place)

    assert main(["monitoring", "--write", str(tmp_path), "--force"]) == 2
    assert f"{place} is not a file" in capsys.readouterr().err
    assert [one.name for one in tmp_path.rglob("*")] == ["grafana", "fleet.json"]
