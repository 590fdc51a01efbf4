"""How the program ends when a person or its output ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.home.home import Home
from benchmarks.checkpoint_tree import make_checkpoint

PROGRAM = [sys.executable, "-m", "airflow_streaming.cli.main"]
FULL = Path("/dev/full")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint in a folder whose name is not ASCII."""
    folder = tmp_path / "prüfung"
    folder.mkdir()
    make_checkpoint(folder, partitions=1, versions=1)
    return folder


def done(
    *arguments: str, environment: Mapping[str, str] | None = None, **given: object
) -> subprocess.CompletedProcess[str]:
    settings: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*PROGRAM, *arguments],
        env={**os.environ, **(environment or {})},
        text=True,
        check=False,
        **settings,
    )


@pytest.mark.skipif(not FULL.exists(), reason="This system has no /dev/full.")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_an_output_that_cannot_be_written_is_one_sentence(
    checkpoint: Path, form: list[str]
) -> None:
    with FULL.open("w") as full:
        ended = done("checkpoint", "inspect", str(checkpoint), *form, stdout=full)

    assert ended.returncode == 2
    assert ended.stderr == (
        "airflow-streaming: The output cannot be written: No space left on device.\n"
    )


@pytest.mark.skipif(not FULL.exists(), reason="This system has no /dev/full.")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["prune", "--help"]])
def test_help_that_cannot_be_written_is_an_error_too(words: list[str]) -> None:
    with FULL.open("w") as full:
        ended = done(*words, stdout=full)

    assert ended.returncode == 2
    assert ended.stderr.startswith("airflow-streaming: ")
    assert ended.stderr.count("\n") == 1


def test_what_the_terminal_cannot_show_is_escaped(checkpoint: Path) -> None:
    plain = done("checkpoint", "inspect", str(checkpoint))
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    ended = done("checkpoint", "inspect", str(checkpoint), environment=ascii_only)

    assert (ended.returncode, ended.stderr) == (plain.returncode, plain.stderr)
    assert "pr\\xfcfung" in ended.stdout


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_interrupts_reads_one_sentence(home: Home, ending: signal.Signals) -> None:
    # The list stands for any work: the signal comes in the middle of it.
    code = (
        "import os, signal, sys\n"
        # What a shell runs in the background ignores Ctrl-C, and nohup has SIGHUP ignored; so do the tests.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from airflow_streaming.cli import main, streams\n"
        f"streams.list_streams = lambda *_, **__: os.kill(os.getpid(), {ending.value})\n"
        "print('begun')\n"
        "sys.exit(main.main(sys.argv[1:]))\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code, "--home", home.store.uri, "list"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == -ending
    assert ended.stdout == "begun\n"
    assert ended.stderr == (
        "airflow-streaming: Interrupted. Recorded steps stand, and nothing half done counts. Give the "
        "command again to continue.\n"
    )


def test_a_closed_output_is_said_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Home
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    arguments = ("stop", "orders", "--reason", "test", "--home", home.store.uri)

    assert main(arguments) == 2

    assert capsys.readouterr().err.startswith("airflow-streaming: ")
    assert home.stream("orders").desired() is None
