"""A folder that is no home must not look like one without streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname

import fsspec
import pytest

from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.main import main
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.storage.probe import RECORD, ensure_exclusive
from benchmarks.checkpoint_tree import make_checkpoint
from tests.unit.home.make import SCRIPT, make_deployment


@pytest.fixture
def bucket() -> Iterator[str]:
    yield "memory://bucket/streams"
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def nothing(place: Path) -> None:
    """A path that was misspelled."""


def a_file(place: Path) -> None:
    place.write_text("ada:x:1000:")


def an_empty_folder(place: Path) -> None:
    place.mkdir()


def a_backup_store(place: Path) -> None:
    place.mkdir()
    open_backup_store(str(place), create=True)


def a_checkpoint(place: Path) -> None:
    place.mkdir()
    make_checkpoint(place, partitions=1, versions=1)


PLACES = {
    nothing: "there is no such folder",
    a_file: "that is a file",
    an_empty_folder: "the folder is empty",
    a_backup_store: "it has no record _store/000001.json, only store.json",
    a_checkpoint: "it has no record _store/000001.json, only commits, metadata, offsets, ...",
}
COMMANDS = {
    "list": ["list"],
    "status": ["status", "orders"],
    "live": ["live", "orders"],
    "doctor": ["doctor", "orders"],
    "conf": ["conf", "orders", "--spark", "4.3", "--cores", "8"],
    "start": ["start", "orders"],
    "stop": ["stop", "orders"],
    "declare-dead": ["declare-dead", "orders", "--epoch", "1", "--reason", "x"],
    "upgrade": ["upgrade", "status", "orders"],
    "cutover": ["cutover", "status", "orders"],
    "backup": ["checkpoint", "backup", "--stream", "orders", "--store", "/nowhere"],
    "undo": ["checkpoint", "undo", "orders"],
    "gate": ["gate", "version", "--stream", "orders", "--to", "4.3"],
    "rehearse": ["rehearse", "--stream", "orders", "--script", "x.py", "--runtime", "/nowhere"],
}


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__.replace("_", " "))
def test_what_is_no_home_is_told_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object
) -> None:
    place = tmp_path / "place"
    make(place)  # type: ignore[operator]
    before = sorted(tmp_path.rglob("*"))

    assert main(["--home", str(place), "list"]) == 2

    told = f"{place} on host {gethostname()} is not a home: {PLACES[make]}. Check --home or"  # type: ignore[index]
    assert told in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_every_command_on_a_home_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    home = tmp_path / "hoem"

    assert main(["--home", str(home), *arguments]) == 2

    assert f"{home} on host" in capsys.readouterr().err
    assert not home.exists()


def test_a_prefix_without_objects_is_no_home(
    bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fsspec.filesystem("memory").pipe_file("/bucket/other/file", b"x")

    assert main(["--home", bucket, "list", "--json"]) == 2

    told = json.loads(capsys.readouterr().out)["error"]
    assert told.startswith(f"{bucket} is not a home: nothing is stored there. ")


def test_a_prefix_that_was_tried_is_a_home(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_exclusive(open_home(bucket).store, creators=1, rounds=1)

    assert main(["--home", bucket, "list"]) == 0
    assert f"No stream has a deployment in {bucket}." in capsys.readouterr().out


def test_a_home_is_made_once_by_a_users_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "home")

    assert main(["init", home, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"home": home, "new": True, "streams": []}
    made = Path(home, RECORD).read_bytes()
    open_home(home).stream("orders").create_deployment(make_deployment(), SCRIPT)

    assert main(["--home", home, "init"]) == 0
    assert "was a home already and stays as it is. Streams: orders." in capsys.readouterr().out
    assert Path(home, RECORD).read_bytes() == made
    assert main(["init"]) == 2
    assert "Which home?" in capsys.readouterr().err


def test_a_home_that_lost_the_record_of_its_store_is_known_by_its_streams(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.stream("orders").create_deployment(make_deployment(), SCRIPT)
    home.store.delete(RECORD)

    assert main(["--home", home.store.uri, "list"]) == 0
    assert "orders" in capsys.readouterr().out
