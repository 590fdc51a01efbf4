"""Every command: its exit code, what goes to the output, and what goes to stderr."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from airflow_streaming.cli.parser import COMMANDS
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.records.control import DesiredState
from tests.unit.cli.host import UNSEEN, FakeHost, Run, begin
from tests.unit.home.make import NOON

RUNTIME = ("--runtime", "/no/such/spark")
STORE = "/no/such/store"
GOOD: dict[str, Any] = {
    "init": ("init",),
    "list": ("list",),
    "status": ("status", "orders"),
    "live": ("live", "orders"),
    "conf": ("conf", "--spark", "4.3", "--cores", "8"),
    "monitoring": ("monitoring",),
    "start": ("start", "orders"),
    "stop": ("stop", "orders"),
    "hand-over": ("hand-over", "orders", "--to", "dag2", "--reason", "moved"),
    "gate": ("gate", "rules"),
}
PROBLEMS: dict[str, Any] = {
    "init": ("init", "relative/home"),
    "list": ("--home", "/no/such/home", "list"),
    "status": ("status", "nosuch"),
    "live": ("live", "nosuch"),
    "doctor": ("doctor", "nosuch"),
    "check": ("check", "--home", "s3:/bucket"),
    "conf": ("conf", "--spark", "1.0", "--cores", "8"),
    "monitoring": ("monitoring", "--write", "/dev/null/files"),
    "start": ("start", "nosuch"),
    "stop": ("stop", "nosuch"),
    "top": ("--home", "/no/such/home", "top", "--once"),
    "events": ("events", "nosuch"),
    "log": ("log", "nosuch"),
    "prune": ("prune", "nosuch"),
    "remove": ("remove", "nosuch", "--reason", "gone"),
    "reuse": ("reuse", "nosuch", "--reason", "back"),
    "adopt": ("adopt", "/no/such/job.py", "--name", "new", "--checkpoint", STORE),
    "prepare-runtime": ("prepare-runtime", *RUNTIME),
    "declare-dead": ("declare-dead", "orders", "--epoch", "9", "--reason", "sure"),
    "hand-over": ("hand-over", "orders", "--to", "a b", "--reason", "moved"),
    "plan": ("plan", "/no/such/job.py", *RUNTIME),
    "gate": ("gate", "version", "--checkpoint", STORE, "--from", "3.5", "--to", "4.3"),
    "rehearse": ("rehearse", "--checkpoint", STORE, "--script", "/no/such/job.py", *RUNTIME),
    "upgrade": ("upgrade", "keep", "orders"),
    "campaign": ("campaign", "status", "7"),
    "cutover": ("cutover", "abort", "orders"),
    "pause": ("pause", "end", "nosuch"),
    "maintenance": ("maintenance", "--select", "name=nosuch", "--for", "60", "--yes"),
    "disaster-drill": ("disaster-drill", "--select", "name=nosuch", "--to", "s3:/bucket"),
    "compare": ("compare", "--blue", STORE, "--green", STORE, *RUNTIME),
    "checkpoint": ("checkpoint", "list", STORE),
    "windows": ("windows", "orders", "--from", "2026-11-27T06:00Z", "--reason", "late"),
}


def test_every_command_is_tried() -> None:
    names = {one.name for _, commands in COMMANDS for one in commands}

    assert names == set(PROBLEMS)
    assert set(GOOD) <= names


@pytest.mark.parametrize("arguments", GOOD.values(), ids=GOOD.keys())
def test_a_success_is_0_and_writes_nothing_to_stderr(
    run: Run, stream: StreamHome, arguments: tuple[str, ...]
) -> None:
    begin(stream)

    code, out, err = run(*arguments)

    assert (code, err) == (0, "")
    assert out


@pytest.mark.parametrize("arguments", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_an_error_goes_to_stderr_in_one_form_and_nothing_to_the_output(
    run: Run, stream: StreamHome, arguments: tuple[str, ...]
) -> None:
    begin(stream)

    code, out, err = run(*arguments)

    assert code in (1, 2)
    assert out == ""
    assert err.startswith("airflow-streaming: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", [one.name for _, commands in COMMANDS for one in commands])
def test_every_command_has_help_with_its_summary(
    run: Run, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(name, "--help")

    (summary,) = (one.summary for _, several in COMMANDS for one in several if one.name == name)
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert summary in " ".join(shown.split())


def test_the_help_shows_every_command_under_its_group(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run("--help")

    shown = capsys.readouterr().out
    for group, commands in COMMANDS:
        section = shown.partition(f"{group}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == [one.name for one in commands]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("stop", "orders", "--grace", grace), id=f"grace {grace}")
        for grace in ("nan", "-1", "inf", "soon", "")
    ]
    + [pytest.param(("stop", "orders", "--wait", "nan"), id="wait nan")],
)
def test_a_number_out_of_its_range_is_refused_with_the_option_and_the_range(
    run: Run, stream: StreamHome, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)

    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"argument {arguments[2]}: {arguments[3]!r} is not a number of seconds from 0 to" in told
    assert stream.desired() is None


@pytest.mark.parametrize("option", ["--by", "--reason"])
@pytest.mark.parametrize("text", ["", "  ", "\n"])
@pytest.mark.parametrize("command", ["start", "stop"])
def test_who_acts_and_why_is_never_empty(
    run: Run, stream: StreamHome, command: str, option: str, text: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(command, "orders", option, text)

    assert ended.value.code == 2
    assert stream.desired() is None


def test_an_unreadable_epoch_is_told_with_what_was_recorded_before(
    run: Run, stream: StreamHome
) -> None:
    stream.store.create("orders/epochs/000001.json", b"{}")

    code, _, err = run("stop", "orders")

    desired = stream.desired()
    assert code == 1
    assert "orders/epochs/000001.json" in err
    assert 'The desired state of orders is recorded as "stopped".' in err
    assert desired is not None
    assert desired.state is DesiredState.STOPPED


def test_a_start_records_nothing_while_it_cannot_tell_what_would_start(
    run: Run, stream: StreamHome
) -> None:
    stream.open_circuit(epoch=1, by="policy", reason="The budget is spent.", now=NOON)
    stream.store.create("orders/epochs/000001.json", b"{}")

    code, _, err = run("start", "orders")

    assert (code, stream.desired()) == (1, None)
    assert "orders/epochs/000001.json" in err


def test_an_error_is_one_json_object_where_json_is_asked_for(run: Run, stream: StreamHome) -> None:
    code, out, err = run("upgrade", "keep", "orders", "--json")

    assert code == 1
    assert err == f"airflow-streaming: {json.loads(out)['error']}\n"


def test_a_status_that_waits_says_at_once_what_for(
    run: Run,
    stream: StreamHome,
    host: FakeHost,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told: list[str] = []
    monkeypatch.setattr("airflow_streaming.cli.status.WATCH_SECONDS", 10.0)
    clock = iter([0.0, 0.0, math.inf, math.inf, math.inf])
    monkeypatch.setattr("airflow_streaming.cli.status.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(
        "airflow_streaming.cli.status.time.sleep", lambda _: told.append(capsys.readouterr().err)
    )
    begin(stream, at=NOON)
    host.process = UNSEEN

    code, out, _ = run("status", "orders")

    assert (code, out.splitlines()[0]) == (1, "orders: UNREACHABLE")
    assert "its driver cannot be seen from here (node-1 is not this host)" in told[0]
    assert "Waiting up to 10 s for a new heartbeat." in told[0]


def test_a_list_waits_for_nothing(run: Run, home: Home, stream: StreamHome, host: FakeHost) -> None:
    begin(stream, at=NOON)
    host.process = UNSEEN

    assert run("list")[2] == ""
