"""The command ``prune``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.home.home import Home
from tests.unit.home.make import SCRIPT, make_deployment


@pytest.fixture
def old(home: Home) -> Path:
    """Leave the checkpoint and the output of a deployment that was replaced months ago."""
    for number in (1, 2):
        places = {
            what: f"{home.store.uri}/orders/{folder}/{number:06d}"
            for what, folder in (("checkpoint", "checkpoints"), ("output", "output"))
        }
        home.stream("orders").create_deployment(make_deployment(number, **places), SCRIPT)
        for place in places.values():
            Path(place).mkdir(parents=True)
            (Path(place) / "part").write_text("1234")
    return Path(home.store.uri) / "orders"


def test_a_dry_run_shows_what_the_run_removes(run: Any, old: Path) -> None:
    code, text, _ = run("prune", "orders", "--dry-run", "--json")
    planned = json.loads(text)
    assert (code, (old / "checkpoints/000001").exists()) == (0, True)
    code, text, _ = run("prune", "orders", "--json", "--by", "kim")
    done = json.loads(text)
    assert (code, done["removed"], done["size"]) == (0, planned["removed"], 4)
    assert not (old / "checkpoints/000001").exists()
    assert (old / "output/000001").exists()


def test_outputs_go_when_asked_for(run: Any, old: Path) -> None:
    assert run("prune", "orders", "--outputs")[0] == 0
    assert not (old / "output/000001").exists()
    assert (old / "output/000002/part").exists()


def test_a_store_that_is_none_stops_it_before_anything_goes(run: Any, old: Path) -> None:
    code, _, _ = run("prune", "orders", "--outputs", "--store", f"{old}/nothing")
    assert (code, (old / "output/000001").exists()) == (1, True)


@pytest.mark.parametrize("days", ["6", "31"])
def test_a_period_out_of_bounds_is_wrong_use(run: Any, old: Path, days: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run("prune", "orders", "--keep-days", days)
    assert ended.value.code == 2


def test_too_few_epochs_are_wrong_use(run: Any, old: Path) -> None:
    assert run("prune", "orders", "--keep-epochs", "1")[0] == 2


def test_a_stream_without_a_deployment_is_not_called_unknown(run: Any, home: Home) -> None:
    home.stream("clicks").create_deployment(make_deployment(1, stream="clicks"), SCRIPT)
    (Path(home.store.uri) / "orders/deployments").mkdir(parents=True)

    found = [run(command, "orders")[2] for command in ("status", "prune")]

    assert all("no deployment" in text and "Existing streams" not in text for text in found)
    assert "Existing streams: clicks, orders." in run("prune", "nosuch")[2]


def test_a_folder_of_logs_that_is_not_there_is_named(run: Any, old: Path, tmp_path: Path) -> None:
    code, _, errors = run("prune", "orders", "--driver-folder", str(tmp_path / "nowhere"))

    assert (code, "nowhere" in errors) == (2, True)
    assert (old / "checkpoints/000001").exists()


def test_a_dry_run_leaves_every_file_of_the_home_as_it_is(run: Any, old: Path) -> None:
    home = old.parent
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    assert run("prune", "orders", "--dry-run")[0] == 0

    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_the_reason_stands_in_the_timeline(run: Any, old: Path, home: Home) -> None:
    assert run("prune", "orders", "--reason", "The disk is full.")[0] == 0

    (pruned,) = home.stream("orders").events(1)
    assert pruned.message.endswith("The disk is full.")
