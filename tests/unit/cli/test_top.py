"""The fleet and one stream's figures in a terminal, and the timeline with filters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.cli.top import BARS, backlog_text, number, sparkline
from tests.page.homes import write_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("top") / "home"
    write_home(folder, {"orders": "healthy", "clicks": "gave_up", "idle": "off"}, hours=1, batch=60)
    return str(folder)


def run(home: str, *arguments: str) -> int:
    return main(["--home", home, *arguments])


def test_the_fleet_shows_what_is_not_well_first(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(home, "top", "--once") == 0
    lines = capsys.readouterr().out.splitlines()
    names = [
        line.split()[0]
        for line in lines
        if line.split() and line.split()[0] in ("orders", "clicks", "idle")
    ]
    assert sorted(names) == ["clicks", "idle", "orders"]
    assert names.index("clicks") < names.index("idle")


def test_rates_and_backlog_are_those_of_the_page(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(home, "top", "--once") == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert float(rows["orders"].split()[2].rstrip("k")) > 0
    assert backlog_text({"records": 1_200.0, "files": 7.0, "bytes": None}) == "1.2k, 7 files"
    assert backlog_text({"records": None, "files": None, "bytes": None}) == ""


def test_one_stream_shows_its_figures_as_sparklines(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(home, "top", "orders", "--once") == 0
    out = capsys.readouterr().out
    assert "input rows/s" in out
    assert set(out) & set(BARS)


@pytest.mark.parametrize("which", [[], ["orders"]], ids=["fleet", "one stream"])
def test_a_pipe_gets_lines_as_long_as_their_text(
    home: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    which: list[str],
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run(home, "top", *which, "--once") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 1_000
    assert lines == [line.rstrip() for line in lines]


def test_a_pipe_gets_the_fleet_as_words_without_rich(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert run(home, "top", "--once") == 0
    title, head, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith(home)
    assert head.split("  ")[0] == "stream"
    figures = {row.split()[0]: row.split()[1:] for row in rows}
    assert sorted(figures) == ["clicks", "idle", "orders"]
    assert next(iter(figures)) == "clicks"
    # An empty cell is a word too, so that columns can be counted.
    assert figures["idle"][1:3] == ["-", "-"]


@pytest.mark.parametrize(
    ("values", "bars"),
    [([0, 0], "▁▁"), ([0, 7], "▁█"), ([5, 5], "██"), ([-1, 0, 1], "▁▅█"), ([1], "█")],
)
def test_a_sparkline_begins_at_zero(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.00002, "0.00002"),
        (950, "950"),
        (1234, "1.23k"),
        (5.6e6, "5.6M"),
        (7e12, "7,000G"),
    ],
)
def test_a_number_is_short(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        (["--kind", "circuit_opened"], {"circuit_opened"}),
        (["--contains", "broker"], {"restart_decided"}),
        (["--by", "ann", "--kind", "deployed"], {"deployed"}),
        (["--since", "0.0001"], set()),
    ],
)
def test_events_are_filtered(
    home: str, capsys: pytest.CaptureFixture[str], filters: list[str], kinds: set[str]
) -> None:
    assert run(home, "events", "clicks", "--json", *filters) == 0
    told = json.loads(capsys.readouterr().out)
    assert {event["event"] for event in told["events"]} == kinds


def test_events_are_lines_for_people(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(home, "events", "clicks", "--last", "2") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_stream_that_is_not_there_is_a_problem(home: str) -> None:
    assert main(["--home", home, "top", "nosuch", "--once"]) == 1


def test_a_home_without_streams_is_an_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_home(tmp_path / "home", {"orders": "off"}, hours=0.1, batch=60)
    assert run(str(tmp_path / "home"), "top", "--once") == 0


@pytest.mark.parametrize("option", ["--hours", "--every"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e999"])
def test_a_range_that_is_no_number_is_wrong_use(home: str, option: str, value: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(home, "top", "--once", f"{option}={value}")

    assert ended.value.code == 2


def test_a_line_that_a_program_reads_is_not_broken(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run(home, "top", "--once") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert len(lines) == 5
    assert max(map(len, lines)) < 500
    assert all("…" not in line for line in lines)


def test_a_screen_shows_the_worst_rows_and_counts_the_others(home: str) -> None:
    from airflow_streaming.cli.top import fleet
    from airflow_streaming.home.home import open_home
    from airflow_streaming.launch.registry import open_launcher

    whole = fleet(open_home(home), open_launcher().probe)
    table = fleet(open_home(home), open_launcher().probe, most=1)

    assert (table.row_count, table.caption) == (1, f"{whole.row_count - 1} more")
    assert table.rows[0].style == whole.rows[0].style
    assert (whole.caption, whole.row_count > 1) == (None, True)
