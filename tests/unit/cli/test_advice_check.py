"""``airflow-streaming check``: lines, JSON and exit codes; the judgement itself has tests of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.advice.installation.installation_checks import (
    Installation,
    SeenRows,
    SeenServer,
)
from airflow_streaming.cli.main import main
from airflow_streaming.home.home import Home, open_home
from tests.unit.advice.test_installation import HEALTH, WELL

OFF = replace(WELL, server=SeenServer(health={**HEALTH, "triggerer": "unhealthy"}, page=200))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param(WELL, 0, id="in order"),
        pytest.param(OFF, 1, id="problem"),
        pytest.param(replace(WELL, airflow=None, airflow_problem="broken"), 3, id="unknown"),
        pytest.param(replace(OFF, airflow=None, airflow_problem="broken"), 1, id="both"),
    ],
)
def test_exit_codes(found: Installation, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered(monkeypatch, found)
    assert main(["check"]) == code


def test_a_problem_is_shown_with_what_was_seen_and_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gathered(monkeypatch, OFF)
    main(["check"])
    text = capsys.readouterr().out
    assert "1 PROBLEM" in text
    assert "unhealthy" in text
    assert "next step: Start it: without a triggerer" in text


def test_json_has_every_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = gathered(monkeypatch, OFF)
    main(["check", "--home", "/data/streams", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "problem"
    first = found["checks"][0]
    assert (first["check"], first["outcome"], first["seen"]) == (
        "triggerer",
        "problem",
        "unhealthy",
    )
    assert homes == [["/data/streams"]]


def test_a_check_looks_at_the_rows_of_a_home_and_rebuilds_them_when_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gathered(monkeypatch, WELL)
    home = open_home(str(tmp_path))
    home.store.replace("_rows/broken.json", b"{")
    home.store.replace("_rows/act-orders.json", b"{}")

    main(["check"])
    assert (seen := looks[-1](home)).malformed == seen.objects == 1
    assert home.store.names("_rows") == ["act-orders.json", "broken.json"]

    main(["check", "--rebuild-rows"])
    assert looks[-1](home).objects == 0
    assert home.store.names("_rows") == ["act-orders.json"]


looks: list[Callable[[Home], SeenRows]] = []


def gathered(patch: pytest.MonkeyPatch, found: Installation) -> list[list[str]]:
    """Let the probes find this; return the homes that they are asked for."""
    asked: list[list[str]] = []

    def gather(homes: list[str], *, rows_of: Callable[[Home], SeenRows]) -> Installation:
        asked.append(homes)
        looks.append(rows_of)
        return found

    module = "airflow_streaming.advice.installation.installation_probes.gather"
    patch.setattr(module, gather)
    return asked
