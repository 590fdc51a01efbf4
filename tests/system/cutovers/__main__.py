"""
Real cutovers, both ways and in both directions, by workers that are killed again and again.

``python -m tests.system.cutovers --runs 30`` takes about a minute and a half a run. Every run adds
one line of JSON to the results and is not done again when the program is started again. A run that
fails is noted, and the next one begins with a new stream. The process ends with 1 when a row was
lost, doubled or wrong, or a cutover did not come to the end it was meant for.

``--bad`` plays applications that must not become live, ``--scenarios`` cutovers that start, or are
ended, in other ways, each on streams of its own.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from airflow_streaming.model.arguments.choices import SwitchMethod
from tests.conftest import find_runtimes
from tests.system.cutovers import applications
from tests.system.cutovers.asked import Asked, Course
from tests.system.cutovers.results import table
from tests.system.cutovers.runs import Runs
from tests.system.cutovers.scenarios import scenarios

RESIDUES: Final = 9
"""Every so-many-th step is killed, another one in each run, so that so many runs kill at all."""

ABORTED_AT: Final = {
    SwitchMethod.HANDOVER: ("ready", "warming", "shadowing"),
    SwitchMethod.PARALLEL: ("ready", "shadowing", "catching_up"),
}
"""While blue is drained nobody is asked; the simulation gives up there too."""


def plan(runs: int, ways: Sequence[SwitchMethod], *, kills: bool = True) -> Iterator[Asked]:
    """Return the runs: of five, three go through, one is given up, and one is rolled back."""
    each = -(-runs // len(ways))
    for number in range(runs):
        way, place = ways[number // each], number % each
        course = (
            (Course.ABORT, Course.ROLL_BACK)[place % 5 - 3] if place % 5 > 2 else Course.FORWARD
        )
        passed = place // 5
        first = 1 + (3 * passed + place % 5 if course is Course.FORWARD else 4 * passed + place % 5)
        yield Asked(
            number=number + 1,
            way=way,
            course=course,
            application="new",
            every=RESIDUES if kills else 0,
            first=first % RESIDUES,
            abort_at=ABORTED_AT[way][passed % 3],
            compares=kills and place % 5 == 0,
        )


def bad(first: int) -> Iterator[Asked]:
    """Return a run for every bad application."""
    ways = [(name, SwitchMethod.PARALLEL) for name in applications.BAD]
    for number, (name, way) in enumerate([*ways, ("fails_later", SwitchMethod.HANDOVER)], first):
        yield Asked(
            number=number,
            way=way,
            application=name,
            compares=name in ("wrong_rows", "no_rows", "schema_drift"),
            deadline_s=45.0 if name in ("slow", "state_too_big") else 240.0,
            soak_s=20.0 if name == "fails_later" else 4.0,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what was not played yet; return the exit code."""
    given = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    asked = [*plan(given.runs, given.ways, kills=not given.unharmed)]
    if given.bad:
        asked = [*bad(1000)]
    if given.scenarios:
        asked = [*scenarios(2000, 0 if given.unharmed else RESIDUES)]
    asked = [one for one in asked if not given.only or one.number in given.only]
    given.folder.mkdir(parents=True, exist_ok=True)
    results = given.folder / "results.jsonl"
    done = {line["run"] for line in _lines(results)}
    left = [one for one in asked if one.number not in done]
    for _, group in groupby(left, lambda one: one.number if given.scenarios else one.way):
        _played(given, [*group], results)
    found = [line for line in _lines(results) if line["run"] in {one.number for one in asked}]
    print(table(found))
    return 0 if found and all(line["holds"] for line in found) else 1


def _played(given: Any, asked: list[Asked], results: Path) -> None:
    """Play runs one after the other on one stream, and on a new one after a failure."""
    while asked:
        first = asked[0]
        folder = given.folder / f"{first.way}-{time.time():.0f}"
        try:
            with Runs(
                folder, given.spark, first.writes, queries=first.queries, streams=first.streams
            ) as runs:
                while asked:
                    _note(results, runs.play(_turned(asked[0], runs)))
                    asked.pop(0)
        except Exception as err:  # noqa: BLE001 - it is noted, and the next run begins anew
            traceback.print_exc()
            failed = asked.pop(0) if asked else None
            if failed is not None:
                told = {
                    "run": failed.number,
                    "way": failed.way.value,
                    "course": failed.course.value,
                }
                why = f"{type(err).__name__}: {err}"[:2000]
                _note(results, told | {"holds": False, "error": why, "folder": str(folder)})


def _turned(asked: Asked, runs: Runs) -> Asked:
    """Return a run with the application that is not the live one's, unless it is a bad one."""
    if asked.application != "new":
        return asked
    newest = runs.stage.lane(runs.stage.live_lane()).newest_deployment()
    is_new = newest is not None and newest.application.endswith("new.py")
    return replace(asked, application="old" if is_new else "new")


def _note(results: Path, told: dict[str, Any]) -> None:
    line = json.dumps(told)
    print(line, flush=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _lines(results: Path) -> list[dict[str, Any]]:
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cutovers", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--folder", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--spark", type=Path, default=find_runtimes().get("spark-4.3"))
    parser.add_argument("--ways", type=SwitchMethod, nargs="+", default=[*SwitchMethod][::-1])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of runs")
    parser.add_argument("--unharmed", action="store_true", help="kill nobody")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--bad", action="store_true", help="bad applications instead")
    other.add_argument("--scenarios", action="store_true", help="unusual cutovers instead")
    given = parser.parse_args(arguments)
    given.folder = given.folder.resolve()
    if given.spark is None:
        parser.error("there is no runtime spark-4.3; name one with --spark")
    return given


if __name__ == "__main__":
    sys.exit(main())
