from __future__ import annotations

import os
import runpy
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.records.epoch import mark_of
from tests.conftest import REPOSITORY
from tests.patience import until


@pytest.fixture(scope="module")
def dag() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "dags" / "load_and_chaos" / "load_and_chaos.py"))


@pytest.mark.parametrize("conf", [None, {}, {"spark.airflow_streaming.chaos": "no"}])
def test_a_stream_without_the_mark_is_refused(dag: dict[str, Any], conf: object) -> None:
    with pytest.raises(ValueError, match="orders"):
        dag["check_is_marked"]({"stream": "orders", "deployment": {"conf": conf}})


def test_a_marked_stream_is_let_through(dag: dict[str, Any]) -> None:
    conf = {"spark.airflow_streaming.chaos": "allowed"}

    dag["check_is_marked"]({"stream": "orders", "deployment": {"conf": conf}})


def arrived(folder: Path, minutes: dict[int, int]) -> list[Path]:
    files = []
    for minute, count in minutes.items():
        for number in range(count):
            file = folder / f"{minute}-{number}.json"
            file.write_text("{}")
            os.utime(file, (60 * minute + number, 60 * minute + number))
            files.append(file)
    return files


def test_the_plan_is_a_multiple_of_the_busiest_minute_and_ends(
    dag: dict[str, Any], tmp_path: Path
) -> None:
    files = arrived(tmp_path, {100: 2, 101: 3, 105: 1})

    moments = [moment for moment, _ in dag["plan"](files, 10, 2)]

    assert dag["busiest_minute"](files) == 3
    assert len(moments) == 3 * 10 * 2
    assert moments[0] == 0
    assert moments[-1] < 120


def test_copies_have_names_of_their_own(dag: dict[str, Any], tmp_path: Path) -> None:
    arrived(tmp_path, {100: 1})
    dag["load"].__globals__["time"] = Clock()

    looks: list[tuple[float, int]] = []

    assert dag["load"](tmp_path, 10, 1, "", lambda *look: looks.append(look)) == 10
    assert len([*tmp_path.glob("load-*.json")]) == 10
    # One file in six seconds, and a look with the first file after each quarter of a minute.
    assert looks == [(18.0, 3), (36.0, 6), (54.0, 9)]


CSV = (
    'No,What,At\n1,"TEAPOT, BLUE",2026-01-05 08:00:00\n2,"RULER 12""",2026-01-05 20:00:00\nbroken\n'
)
JSON = (
    '{"id": 1, "ts": "2026-01-05T08:00:00Z"}\n{"id": 2, "ts": "2026-01-05T20:00:00Z"}\n{"id": 3\n'
)


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        (CSV, "At", CSV.replace("01-05 08", "01-07 20").replace("01-05 20", "01-08 08")),
        (JSON, "ts", JSON.replace("01-05T08", "01-07T20").replace("01-05T20", "01-08T08")),
    ],
    ids=["CSV", "JSON lines"],
)
def test_copies_have_event_times_as_new_as_those_of_the_newest_file(
    dag: dict[str, Any], tmp_path: Path, text: str, column: str, expected: str
) -> None:
    (tmp_path / "0.txt").write_text(text)
    newest = tmp_path / "1.txt"
    newest.write_text(text.replace("01-05", "01-07"))
    os.utime(tmp_path / "0.txt", (0, 0))
    (tmp_path / "load-9-0000001.txt").write_text(text.replace("01-05", "01-31"))
    renewal = dag["Renewal"](tmp_path, column)

    renewal.copy(tmp_path / "0.txt", tmp_path / ".part")
    assert (tmp_path / ".part").read_text() == text.replace("01-05", "01-07")

    newest.write_text(expected)
    renewal.look()
    renewal.copy(tmp_path / "0.txt", tmp_path / ".part")
    assert (tmp_path / ".part").read_text() == expected


def test_a_file_without_the_column_of_event_times_is_refused(
    dag: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "0.csv").write_text(CSV)

    with pytest.raises(ValueError, match="time_column"):
        dag["Renewal"](tmp_path, "ts").copy(tmp_path / "0.csv", tmp_path / ".part")


class Clock:
    """Time that passes only where it is slept."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def seen(**states: str) -> dict[str, Any]:
    return {"rules": [{"rule": rule, "state": state} for rule, state in states.items()]}


def test_of_each_rule_the_first_moment_is_reported_in_their_order(dag: dict[str, Any]) -> None:
    fired = dag["Fired"](seen(silent="firing", backlog="clear"))
    fired.look(seen(silent="firing", backlog="clear"), 15.4, 50)
    fired.look(seen(silent="clear", backlog="firing"), 30.0, 100)
    fired.look(seen(silent="firing", backlog="firing", commits="firing"), 45.0, 150)

    assert fired.before == ["silent"]
    assert fired.first == [
        {"rule": "backlog", "after_seconds": 30, "files": 100},
        {"rule": "commits", "after_seconds": 45, "files": 150},
    ]


@pytest.mark.parametrize(("succeeds_at", "is_equal"), [(1, True), (3, True), (99, False)])
def test_the_output_has_time_to_become_equal(
    dag: dict[str, Any], tmp_path: Path, succeeds_at: int, is_equal: bool
) -> None:
    asked = tmp_path / "asked"
    script = tmp_path / "compare.sh"
    script.write_text(
        f"echo >> {asked}; echo noise; wc -l < {asked}; [ $(wc -l < {asked}) -ge {succeeds_at} ]"
    )
    dag["compared_within"].__globals__["time"] = Clock()

    compared = dag["compared_within"](f"sh {script}", 1)

    assert compared.is_equal is is_equal
    assert compared.found.strip() == str(len(asked.read_text().splitlines()))


def test_a_command_that_prints_nothing_found_nothing(dag: dict[str, Any]) -> None:
    dag["compared_within"].__globals__["time"] = Clock()

    assert dag["compared_within"]("true", 1) == (True, "")


def test_a_driver_is_found_by_its_token_only(dag: dict[str, Any]) -> None:
    # Another token than that of any driver that a test beside this one runs.
    token = uuid.uuid4().hex
    program = [sys.executable, "-c", "input()", "--token", mark_of(token)]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        found = until(lambda: dag["processes_of"](token), "the process")
        assert found == [process.pid]
        assert dag["processes_of"](uuid.uuid4().hex) == []
        assert dag["processes_of"]("") == []
        process.kill()


def test_the_report_names_the_rules_that_could_not_be_judged_yet(dag: dict[str, Any]) -> None:
    rules = [
        {"rule": "silent", "state": "clear", "reason": "Rows come."},
        {"rule": "backlog_files", "state": "unknown", "reason": "Seen for 5 of 10 min."},
    ]

    assert dag["not_judged"]({"rules": rules}) == {"backlog_files": "Seen for 5 of 10 min."}


@pytest.mark.parametrize(("is_well", "equal"), [(False, None), (True, False)])
def test_chaos_that_a_stream_does_not_survive_fails_with_its_report(
    monkeypatch: pytest.MonkeyPatch, is_well: bool, equal: bool | None
) -> None:
    dag = runpy.run_path(str(REPOSITORY / "dags" / "load_and_chaos" / "load_and_chaos.py"))
    act = dag["kill_and_report"].function
    given = {"stream": "orders", "kills": 9, "minutes": 1, "compare": "" if equal is None else "x"}
    seen = {
        "all_right": is_well,
        "deployment": {"conf": {"spark.airflow_streaming.chaos": "allowed"}},
    }
    told: list[str] = []
    for name, value in {
        "get_current_context": lambda: {"params": given},
        "status": lambda home, stream: {"stream": stream, **seen},
        "compared_within": lambda compare, minutes: dag["Compared"](bool(equal), "2 rows lost"),
        "tell": told.append,
        "time": Clock(),
    }.items():
        monkeypatch.setitem(act.__globals__, name, value)
    events = act("/streams")
    report = next(events)

    with pytest.raises(RuntimeError, match="orders did not come through"):
        next(events)
    assert report.extra["well_again"] is is_well
    assert report.extra["output"] == ("not compared" if equal is None else "different")
