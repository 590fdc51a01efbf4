from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.cli.parser import OF_SCRIPTS, Parser, build_parser, parsed
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from tests.unit.cli.host import Run
from tests.unit.home.make import make_epoch, make_launch


class TestUse:
    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param([], id="no command"),
            pytest.param(["dance"], id="unknown command"),
            pytest.param(["status"], id="no stream"),
            pytest.param(["stop", "orders", "--wait", "-1"], id="a negative wait"),
            pytest.param(["stop", "orders", "--wait", "soon"], id="no number"),
            pytest.param(["declare-dead", "orders", "--epoch", "1"], id="no reason"),
            pytest.param(["declare-dead", "orders", "--reason", "x"], id="no epoch"),
        ],
    )
    def test_wrong_use_exits_with_2(self, run: Run, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run(*arguments)

        assert raised.value.code == 2

    def test_a_home_is_needed(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)

        assert main(["list"]) == 2
        assert "Give --home, or set AIRFLOW_STREAMING_HOME." in capsys.readouterr().err

    def test_the_home_may_come_from_the_environment(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", home.store.uri)

        assert main(["list"]) == 0
        assert home.store.uri in capsys.readouterr().out

    def test_the_home_may_stand_behind_the_command(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("AIRFLOW_STREAMING_HOME", "/another")

        assert main(["list", "--home", home.store.uri]) == 0
        assert home.store.uri in capsys.readouterr().out

    @pytest.mark.parametrize("command", ["status", "start", "stop"])
    def test_an_unknown_stream_is_named_with_the_known_ones(
        self, run: Run, stream: StreamHome, command: str
    ) -> None:
        code, _, err = run(command, "oders")

        assert code == 1
        assert "Stream 'oders' does not exist in " in err
        assert err.endswith("Existing streams: orders.\n")

    def test_a_bad_stream_name_is_wrong_use(self, run: Run) -> None:
        code, _, err = run("status", "../orders")

        assert code == 2
        assert err.startswith("airflow-streaming: Stream name '../orders' cannot be used")

    def test_a_bad_home_is_wrong_use(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--home", "not/absolute", "list"]) == 2
        assert "is relative" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "usage"),
        [
            pytest.param(["list", "--al"], "usage: airflow-streaming list ", id="a command"),
            pytest.param(
                ["gate", "rules", "--al"], "usage: airflow-streaming gate rules ", id="a verb"
            ),
            pytest.param(
                ["checkpoint", "--al", "inspect", "/ck"],
                "usage: airflow-streaming checkpoint ",
                id="before the verb",
            ),
        ],
    )
    def test_an_unknown_option_shows_the_usage_of_what_was_asked_for(
        self, capsys: pytest.CaptureFixture[str], arguments: list[str], usage: str
    ) -> None:
        with pytest.raises(SystemExit) as raised:
            main(arguments)

        assert raised.value.code == 2
        told = capsys.readouterr()
        assert (told.out, told.err.startswith(usage)) == ("", True)
        assert "error: unrecognized arguments: --al" in told.err


class TestJson:
    """With --json there is one object, whatever comes."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            pytest.param(["list", "--json", "--al"], "unrecognized arguments: --al", id="option"),
            pytest.param(["status", "--json"], "required: STREAM", id="no stream"),
            pytest.param(["dance", "--json"], "invalid choice: 'dance'", id="no command"),
            pytest.param(["list", "--json"], "Which home?", id="no home"),
            pytest.param(["list", "--home", "/nope", "--json"], "/nope on host", id="bad home"),
        ],
    )
    def test_wrong_use_is_an_error_in_it(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        sentence: str,
    ) -> None:
        monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)

        assert code_of(arguments) == 2

        told = capsys.readouterr()
        assert sentence in json.loads(told.out)["error"]
        assert sentence in told.err

    def test_an_argument_of_a_script_asks_for_none(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert code_of(["plan", "job.py", "--", "--json"]) == 2
        assert capsys.readouterr().out == ""


def code_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def test_without_a_launcher_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_streaming.launch.local", None)

    process = open_launcher().probe(make_epoch(), make_launch())

    assert process.state is ProcessState.UNSEEN
    assert "cannot be loaded here" in process.detail


def test_the_command_starts_without_airflow_spark_or_fsspec(home: Home) -> None:
    code = (
        "import sys; from airflow_streaming.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, sorted({'airflow', 'pyspark', 'fsspec'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "--home", home.store.uri, "list"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(
            ["checkpoint", "backup", "/no/checkpoint", "--store", "/no/store"], id="backup"
        ),
        pytest.param(["checkpoint", "verify", "/no/store", "1"], id="verify"),
        pytest.param(["checkpoint", "restore", "/no/store", "1", "--to", "/no/new"], id="restore"),
    ],
)
def test_a_command_without_a_home_loads_nothing_that_reads_one(arguments: list[str]) -> None:
    code = (
        "import contextlib, sys; from airflow_streaming.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main(sys.argv[1:])\n"
        "print(sorted({'psutil', 'airflow_streaming.home.home'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (("status", "--", "orders"), "orders"),
        (("--home", "/h", "stop", "--reason", "x", "--", "orders"), "orders"),
        (
            ("rehearse", "--stream", "orders", "--script", "a.py", "--runtime", "r", "--", "x"),
            "orders",
        ),
    ],
)
def test_two_dashes_end_the_options(words: tuple[str, ...], stream: str) -> None:
    assert parsed(build_parser(), words).stream == stream


def filled(parser: argparse.ArgumentParser) -> list[Any]:
    """Return a parser and those of its commands and verbs, with all their arguments."""
    if isinstance(parser, Parser) and parser.fill is not None:
        parser.fill(parser)
    choices = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [parser, *(one for several in choices for p in several.values() for one in filled(p))]


def test_the_commands_of_scripts_are_those_that_take_arguments_after_two_dashes() -> None:
    taking = {
        one.prog.split()[1]
        for one in filled(build_parser())
        if any(action.dest == "arguments" for action in one._actions)
    }
    assert taking == OF_SCRIPTS


def test_every_help_fits_into_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pages = {one.prog: one.format_help().splitlines() for one in filled(build_parser())}
    assert len(pages) > 35
    assert {name: line for name, lines in pages.items() for line in lines if len(line) > 80} == {}


def test_every_help_says_the_same_of_the_home() -> None:
    said = {
        action.help
        for one in filled(build_parser())
        for action in one._actions
        if action.dest == "home"
    }
    assert len(said) == 1
