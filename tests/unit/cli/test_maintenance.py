"""The command ``maintenance``."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.services.maintenance import MaintenanceLog
from tests.unit.cli.host import Run
from tests.unit.home.make import SCRIPT, make_deployment

NAMES = ("clicks", "orders", "views")
BEGIN = ("maintenance", "--select", "name", "--for", "7200", "--at-once", "2")


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
        (("--select", "name=none", "--for", "60", "--yes"), 1),
        (("--show",), 2),
    ],
)
def test_a_wrong_use_holds_nothing(
    run: Run, streams: dict[str, StreamHome], wrong: tuple[str, ...], code: int
) -> None:
    assert run("maintenance", *wrong)[0] == code
    assert [one.desired() for one in streams.values()] == [None] * 3
