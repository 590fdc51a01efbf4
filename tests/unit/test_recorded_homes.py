"""This release reads the homes of older releases, adopts their drivers, and leaves newer records alone."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.exceptions import AirflowException

from airflow_streaming import __version__
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import RecordFormatError, StreamingError
from airflow_streaming.model.names import PLACES
from airflow_streaming.model.wire import RELEASE, STREAM, Record, parse_json
from tests.conftest import REPOSITORY
from tests.fakes import FakeDriver
from tests.homes.record import FOLDER, unpacked
from tests.unit.model.examples import EXAMPLES
from tests.unit.world import World

READERS: Final = {one.KIND: type(one) for one in EXAMPLES}
GONE: Final = frozenset({"rehearsed_run"})
"""Kinds that this release neither reads nor needs: the report of a run took the place of ``rehearsed_run``."""
OTHER_FORM: Final = frozenset({"query_plan", "script_plan"})
"""Kinds with a format of their own inside: the gates do not know the captures of an older release, once."""
NEWER: Final = "99.1.0"
VERSIONS: Final = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def recorded(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{version}.json").read_text())
    return found


def records() -> list[Any]:
    return [
        pytest.param(text, id=f"{version} {json.loads(text)['kind']} {number}")
        for version in VERSIONS
        for number, text in enumerate(recorded(version)["records"])
    ]


def test_every_release_has_recorded_its_homes() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    assert {*re.findall(r"^## (\d[\d.]*)", text, re.MULTILINE), __version__} <= {*VERSIONS}


@pytest.mark.parametrize("text", records())
def test_what_an_older_release_wrote_is_read(text: str) -> None:
    told = json.loads(text)
    if told["kind"] in GONE:
        return
    reader: type[Record] = READERS[told["kind"]]

    again = reader.from_bytes(text.encode()).to_dict()

    known = {field.name for field in fields(reader)} & {*told}
    assert known
    if told["kind"] in OTHER_FORM:
        return
    assert _shared({name: again[name] for name in known}, told) == {
        name: told[name] for name in known
    }


def _shared(again: Any, told: Any) -> Any:
    """Return a value without the fields that the older release did not write."""
    if isinstance(again, dict) and isinstance(told, dict):
        return {name: _shared(again[name], told[name]) for name in again if name in told}
    if isinstance(again, list) and isinstance(told, list):
        return [_shared(*pair) for pair in zip(again, told, strict=True)]
    return again


@pytest.mark.parametrize("kind", sorted(READERS))
def test_an_older_release_refuses_a_newer_record_with_a_sentence(kind: str) -> None:
    (text, *_) = [t for t in recorded(__version__)["records"] if json.loads(t)["kind"] == kind]
    data = newer(text.encode())

    with pytest.raises(RecordFormatError) as refused:
        READERS[kind].from_dict(parse_json(data))

    assert str(refused.value) == (
        f"airflow-streaming {NEWER} wrote the record: version {__version__} reads version "
        f"{READERS[kind].VERSION} of {kind!r} records, found {READERS[kind].VERSION + 1}. Install "
        f"{NEWER} or a newer version here. Leave the file in place."
    )


def newer(data: bytes) -> bytes:
    told = json.loads(data)
    told |= {"version": told["version"] + 1, RELEASE: NEWER}
    return json.dumps(told).encode()


def test_every_record_of_a_home_names_the_release_that_wrote_it() -> None:
    stored = [json.loads(text) for text in recorded(__version__)["records"]]
    of_streams = [told for told in stored if told["kind"] in PLACES]
    assert of_streams
    assert all(told[STREAM] and told[RELEASE] == __version__ for told in of_streams)


@pytest.fixture(params=VERSIONS)
def earlier(request: pytest.FixtureRequest, world: World) -> World:
    """A world whose stream was started by another release."""
    unpacked(recorded(request.param), world.folder)
    return world


def revive(world: World) -> None:
    launch = world.home.launch(1)
    assert launch is not None
    world.launcher.drivers[world.epoch().token] = FakeDriver(launch=launch)


def test_the_driver_of_another_release_is_adopted(earlier: World) -> None:
    revive(earlier)

    trigger = earlier.run()
    again = earlier.wake(trigger)

    assert (trigger.watched, again.watched) == (1, 1)
    assert earlier.epochs() == 1
    assert earlier.launcher.launched == []


def test_a_driver_that_died_during_the_upgrade_is_followed_by_one(earlier: World) -> None:
    trigger = earlier.run()

    assert trigger.watched == 2
    assert [one.epoch.number for one in earlier.launcher.launched] == [2]
    assert earlier.home.death(1) is not None or earlier.home.restart_decision(1) is not None


@pytest.mark.parametrize("killed", ["before it looks", "after it adopted", "after the stop"])
def test_a_task_that_is_killed_at_a_step_of_the_upgrade_changes_nothing(
    earlier: World, killed: str
) -> None:
    revive(earlier)
    if killed != "before it looks":
        earlier.run()
    if killed == "after the stop":
        earlier.ask_to_stop()

    trigger = earlier.run()

    assert trigger.watched == 1
    assert earlier.launcher.launched == earlier.launcher.killed == []


HOME_FILES: Final = sorted(name for name in recorded(__version__)["home"] if name.endswith(".json"))
COMMANDS: Final = (
    ("status", "orders"),
    ("list",),
    ("events", "orders"),
    ("stop", "orders", "--by", "kim", "--reason", "x"),
    ("start", "orders", "--by", "kim", "--reason", "x"),
    ("hand-over", "orders", "--to", "other", "--by", "kim", "--reason", "x"),
)


@pytest.mark.parametrize("name", HOME_FILES)
def test_a_newer_record_of_a_home_stops_no_command_with_a_traceback_and_stays(
    world: World, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.cli.status.WATCH_SECONDS", 0.1)
    unpacked(recorded(__version__), world.folder)
    revive(world)
    path = Path(world.uri) / name
    path.write_bytes(newer(path.read_bytes()))
    before = path.read_bytes()

    refused = ""
    try:
        world.run()
    except (StreamingError, AirflowException) as err:
        refused = str(err)
    assert not refused or f"Install {NEWER}" in refused

    for command in COMMANDS:
        code = main([*command, "--home", world.uri])
        said = capsys.readouterr()
        assert code in range(5), command
        assert "Traceback" not in said.err + said.out
    assert path.read_bytes() == before
    assert world.launcher.launched == []
