"""Records that nobody of ours wrote: each is refused by name, and none takes others with it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import RecordError
from airflow_streaming.home.home import StreamHome, init_home
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.names import MAX_NUMBER, number_of, numbered
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.model.records.cutover import LiveRecord
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch, make_launch
from tests.unit.model.examples import EXAMPLES


@pytest.fixture
def stream(tmp_path: Path) -> StreamHome:
    stream = init_home(str(tmp_path / "home")).stream("orders")
    stream.create_deployment(make_deployment(), SCRIPT)
    stream.create_epoch(make_epoch())
    stream.record_launch(make_launch())
    return stream


def rewrite(stream: StreamHome, path: str, **changes: Any) -> None:
    data = json.loads(stream.store.read(path) or b"")
    stream.store.replace(path, json.dumps({**data, **changes}).encode())


LAUNCH = "orders/epochs/000001/launch.json"
EPOCH = "orders/epochs/000001.json"
DEPLOYMENT = "orders/deployments/000001.json"


@pytest.mark.parametrize(
    ("path", "changes", "read"),
    [
        pytest.param(LAUNCH, {"handle": 7}, lambda s: s.launch(1), id="handle_no_object"),
        pytest.param(LAUNCH, {"handle": {"pid": 7}}, lambda s: s.launch(1), id="handle_no_text"),
        pytest.param(LAUNCH, {"log": "/logs/\0"}, lambda s: s.launch(1), id="nul_in_log"),
        pytest.param(LAUNCH, {"token": "a\0"}, lambda s: s.launch(1), id="nul_in_token"),
        pytest.param(LAUNCH, {"epoch": 2**64}, lambda s: s.launch(1), id="beyond_64_bits"),
        pytest.param(
            DEPLOYMENT, {"checkpoint": "/c\0"}, lambda s: s.deployment(1), id="nul_in_checkpoint"
        ),
        pytest.param(
            DEPLOYMENT, {"application": "\0"}, lambda s: s.deployment(1), id="nul_in_application"
        ),
        pytest.param(DEPLOYMENT, {"output": "a\0"}, lambda s: s.deployment(1), id="nul_in_output"),
        pytest.param(
            DEPLOYMENT, {"output": "/a\ud800"}, lambda s: s.deployment(1), id="half_a_character"
        ),
    ],
)
def test_a_malformed_record_is_refused_with_the_name_of_its_file(
    stream: StreamHome, path: str, changes: dict[str, Any], read: Callable[[StreamHome], object]
) -> None:
    rewrite(stream, path, **changes)

    with pytest.raises(RecordError) as refusal:
        read(stream)

    assert path in str(refusal.value)


@pytest.mark.parametrize("zone", ["Europe", "x" * 5000, "../../etc/passwd", "a\0b", "", "."])
def test_a_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=r"time zone|timezone"):
        Blackout(start="10:00", end="11:00", timezone=zone)


@pytest.mark.parametrize("field", ["lane", "leader", "stream"])
@pytest.mark.parametrize("name", ["../etc", "", "a/b", "a\0", "x" * 300])
def test_a_live_record_of_a_lane_that_cannot_be_is_refused(field: str, name: str) -> None:
    (example,) = (one for one in EXAMPLES if isinstance(one, LiveRecord))
    data = json.loads(example.to_bytes())

    with pytest.raises(RecordError):
        LiveRecord.from_bytes(json.dumps({**data, field: name}).encode())


@pytest.mark.parametrize("name", [f"{MAX_NUMBER + 1}.json", "999999999999.json"])
def test_an_absurd_number_is_not_believed_and_named(
    stream: StreamHome, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("epochs", "circuit", "desired", "deployments"):
        stream.store.create(f"orders/{kind}/{name}", b"{}")
    caplog.set_level(logging.WARNING)

    assert number_of(name) is None
    assert [epoch.number for epoch in [stream.newest_epoch()] if epoch] == [1]
    assert stream.want(DesiredState.STOPPED, by="kim", reason="x", now=NOON).number == 1
    stream.open_circuit(epoch=1, by="kim", reason="x", now=NOON)
    closed = stream.close_circuit(epoch=1, by="kim", reason="x", now=NOON)
    assert closed == stream.circuit()
    assert closed is not None
    assert closed.state is CircuitState.CLOSED
    assert f"orders/epochs/{name}" in caplog.text


def test_no_number_is_given_beyond_the_largest() -> None:
    assert number_of(f"{numbered(MAX_NUMBER)}.json") == MAX_NUMBER
    with pytest.raises(RecordError):
        numbered(MAX_NUMBER + 1)


def test_earlier_decisions_are_looked_for_among_the_epochs_that_are_there(
    stream: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(StreamHome, "restart_decision", lambda _, number: asked.append(number))

    assert stream.earlier_decisions(MAX_NUMBER) == []
    assert asked == [1]


@pytest.mark.parametrize(
    ("path", "changes", "read"),
    [
        pytest.param(
            DEPLOYMENT,
            {"runtime": "another", "conf": {"spark.plugins": "evil.P"}},
            lambda s: s.deployment(1),
            id="runtime_and_code",
        ),
        pytest.param(EPOCH, {"executors": 40}, lambda s: s.epoch(1), id="size"),
    ],
)
def test_a_writer_of_the_home_chooses_what_the_next_driver_runs(
    stream: StreamHome, path: str, changes: dict[str, Any], read: Callable[[StreamHome], Any]
) -> None:
    rewrite(stream, path, **changes)

    assert {name: getattr(read(stream), name) for name in changes} == changes


def bad_link(folder: Path) -> None:
    folder.symlink_to("/etc")


def bad_deployment(folder: Path) -> None:
    (folder / "deployments").mkdir(parents=True)
    (folder / "deployments" / "000001.json").write_bytes(b"{")


def pipe(folder: Path) -> None:
    folder.mkdir()
    (folder / "deployments").symlink_to("/dev")


@pytest.mark.parametrize("spoil", [bad_link, bad_deployment, pipe])
def test_one_bad_stream_takes_no_other_from_the_list(
    stream: StreamHome,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
) -> None:
    spoil(tmp_path / "home" / "bad")

    code = main(["list", "--home", str(tmp_path / "home"), "--json"])

    shown = json.loads(capsys.readouterr().out)
    assert [one["stream"] for one in shown["streams"]] == ["orders"]
    assert list(shown["unreadable"]) == ["bad"]
    assert code != 0
