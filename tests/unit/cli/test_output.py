"""What a terminal gets, and what a pipe gets."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from airflow_streaming.checkpoints.progress import Phase, ProgressNow
from airflow_streaming.cli import output
from airflow_streaming.home.home import Home
from airflow_streaming.reports.report import Paragraph, Tone, Verdict, report_of
from airflow_streaming.reports.terminal import plain

REPORT = report_of(
    [Verdict(subject="orders", word="healthy", tone=Tone.GOOD), Paragraph("word " * 60)]
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "70")
    return Terminal()


def test_a_terminal_gets_colors_and_its_width(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.show(REPORT)

    shown = terminal.getvalue()
    assert "\x1b[1;32mHEALTHY" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize(("name", "setting"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_plain_form_is_shown_where_it_is_asked_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, setting: str
) -> None:
    monkeypatch.setenv(name, setting)

    with redirect_stdout(terminal):
        output.show(REPORT)

    assert terminal.getvalue() == f"{plain(REPORT)}\n"


def test_a_pipe_gets_the_plain_form_unwrapped(capsys: pytest.CaptureFixture[str]) -> None:
    output.show(REPORT, REPORT)

    assert capsys.readouterr().out == f"{plain(REPORT)}\n\n{plain(REPORT)}\n"


def test_a_command_that_is_piped_does_without_rich(home: Home) -> None:
    code = (
        "import sys; from airflow_streaming.cli.main import main; main(sys.argv[1:]); "
        "print('rich' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "--home", home.store.uri, "list"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "False"


COPY = ProgressNow(phase=Phase.COPY, subject="counts", files=4_100, of=9_800, size=1, of_size=2)


def test_progress_is_a_bar_on_a_terminal(terminal: Terminal) -> None:
    with output.progress(terminal) as told:
        told(COPY)
        told.bytes_read(1, 2)

    assert "copy counts: 4,100 of 9,800 files" in terminal.getvalue()


def test_short_work_shows_no_progress_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    with output.progress(shown) as told:
        told(COPY)
    assert shown.getvalue() == ""


def test_long_work_prints_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("airflow_streaming.cli.output.time.monotonic", lambda: now[0])
    shown = io.StringIO()
    with output.progress(shown) as told:
        for second in range(6):
            now[0] = float(second)
            told(COPY)

    assert shown.getvalue() == "copy counts: 4,100 of 9,800 files, 1 B of 2 B\n" * 2


def test_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain("a\x1b[31mb\nsecond line")

    assert capsys.readouterr().err == "airflow-streaming: a\ufffd[31mb\nsecond line\n"
