"""The command ``maintenance``."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.services.maintenance import MaintenanceLog
from airflow_streaming.services.streams import stop
from tests.unit.cli.host import Run
from tests.unit.home.make import SCRIPT, make_deployment

NAMES = ("clicks", "orders", "views")
BEGIN = ("maintenance", "--select", "name", "--for", "7200", "--at-once", "2")


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def streams(home: Home) -> dict[str, StreamHome]:
    made = {name: home.stream(name) for name in NAMES}
    for name, stream in made.items():
        stream.create_deployment(make_deployment(stream=name), SCRIPT)
    return made


def test_a_maintenance_is_named_first_and_begun_with_yes(
    run: Run, home: Home, streams: dict[str, StreamHome]
) -> None:
    code, out, _ = run(*BEGIN)

    assert code == 0
    assert "Nothing was changed" in out
    assert MaintenanceLog(home.store).newest() is None
    assert streams["orders"].desired() is None

    code, out, _ = run(*BEGIN, "--yes", "--reason", "the broker moves", "--by", "ada", "--json")

    assert code == 0
    told = json.loads(out)
    assert told["states"] == dict.fromkeys(NAMES, "held")
    wishes = {name: one.desired() for name, one in streams.items()}
    assert {wish.state for wish in wishes.values() if wish} == {DesiredState.STOPPED}
    ends = [wish.until for wish in wishes.values() if wish and wish.until]
    assert ends[0] == ends[1] < ends[2]
    assert "the broker moves" in wishes["views"].reason

    code, out, _ = run("maintenance", "--show")
    assert code == 0
    assert "Maintenance 1 by ada: the broker moves" in out

    assert json.loads(run(*BEGIN, "--yes", "--json")[1])["number"] == 2


def test_a_stream_that_is_stopped_stays_so(run: Run, streams: dict[str, StreamHome]) -> None:
    now = datetime.now(UTC)
    streams["orders"].want(DesiredState.STOPPED, by="ada", reason="month end", now=now)

    code, _, err = run(*BEGIN, "--yes")

    assert code == 1
    assert "orders is left as it is: it is stopped without an end" in err
    assert streams["orders"].desired().until is None


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (("--select", "name"), 2),
        (("--select", "teem=web", "--for", "60", "--yes"), 2),
        (("--select", "name=none", "--for", "60", "--yes"), 2),
        (("--select", "name", "--for", "0", "--yes"), 2),
        (("--show",), 1),
        (("--show", "--yes"), 2),
        (("--show", "--for", "60"), 2),
        (("--show", "--at-once", "3"), 2),
    ],
)
def test_a_wrong_use_holds_nothing(
    run: Run, streams: dict[str, StreamHome], wrong: tuple[str, ...], code: int
) -> None:
    try:
        found = run("maintenance", *wrong)[0]
    except SystemExit as left:
        found = left.code
    assert found == code
    assert [one.desired() for one in streams.values()] == [None] * 3


def test_a_dry_run_says_what_yes_would_do(run: Run, streams: dict[str, StreamHome]) -> None:
    now = datetime.now(UTC)
    streams["orders"].want(DesiredState.STOPPED, by="ada", reason="month end", now=now)

    code, out, err = run(*BEGIN)

    assert code == 1, "as with --yes"
    assert "orders is left as it is: it is stopped without an end" in err
    assert "orders" not in out
    assert "views starts again at" in out

    code, out, _ = run(*BEGIN, "--json")
    told = json.loads(out)
    assert (code, told["number"], [*told["left"]]) == (1, None, ["orders"])

    _, out, _ = run(*BEGIN, "--yes")
    assert "orders is left as it is: a user stopped it without an end." in out
    assert "orders starts" not in out
    assert [*json.loads(run(*BEGIN, "--yes", "--json")[1])["left"]] == ["orders"]


def test_the_later_end_of_two_maintenances_counts(
    run: Run, home: Home, streams: dict[str, StreamHome]
) -> None:
    begin = ("maintenance", "--yes", "--json")
    run(*begin, "--select", "name", "--for", "7200", "--reason", "network")
    long = {name: one.desired().until for name, one in streams.items()}
    told = json.loads(run(*begin, "--select", "name=orders", "--for", "600")[1])

    assert {name: one.desired().until for name, one in streams.items()} == long
    assert parse_time(told["streams"][0]["until"], "until") == long["orders"], "as it will be"
    assert told["states"] == {"orders": "held"}

    run(*begin, "--select", "name=orders", "--for", "9000")
    assert streams["orders"].desired().until > long["orders"]
    code, out, _ = run("maintenance", "--show")
    assert code == 0
    assert "Maintenance 3" in out
    assert "Maintenance 1" in out, "it still holds streams"
    assert "orders is held longer by another stop" in out
    told = json.loads(run("maintenance", "--show", "--json")[1])
    assert (told["number"], [one["number"] for one in told["earlier"]]) == (3, [2, 1])


def test_a_stream_that_was_never_held_is_told_apart(
    run: Run, streams: dict[str, StreamHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    def killed(lane: StreamHome, **more: object) -> object:
        if held:
            raise Killed
        held.append(lane.name)
        return stop(lane, **more)

    monkeypatch.setattr("airflow_streaming.services.maintenance.stop", killed)
    with pytest.raises(Killed):
        run(*BEGIN, "--yes")

    code, out, _ = run("maintenance", "--show")

    assert code == 1
    assert "clicks starts again at" in out
    assert out.count("was never held. Repeat the command to hold it.") == 2
