"""Cells: an act on the stream of a deployment, a part that dies in its middle, and the rows that are counted after it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from demo.events import COLUMNS, LATENESS, Shop
from demo.waiting import Say
from tests.deployment.acts import ACTS, works_again
from tests.deployment.deployed import STREAM, Deployment
from tests.deployment.fetching import fetch_output
from tests.deployment.parts import PARTS
from tests.deployment.table import Outcome, Rows
from tests.deployment.world import World

MIDDLE_EVERY: Final = 0.3
"""The middle of an act may last a second."""

Cell = tuple[str, str]


def chosen(text: str) -> list[Cell]:
    """
    Return the cells of a command line: ``ACT:PART,ACT:PART``; ``all`` stands for every act or part.

    :raises RuntimeError: an act or a part is unknown.
    """
    cells: list[Cell] = []
    for one in filter(None, text.split(",")):
        act, _, part = one.partition(":")
        rows = [name for name in ACTS if ACTS[name].needs_stream] if act == "all" else [act]
        columns = ["none", *PARTS] if part == "all" else [part or "none"]
        cells += [(row, column) for row in rows for column in columns]
    names = {name for cell in cells for name in cell}
    if unknown := names - {*ACTS, *PARTS, "none"}:
        raise RuntimeError(f"Unknown act or part: {', '.join(sorted(unknown))}.")
    return cells


def run_cells(
    made: Deployment,
    cells: Sequence[Cell],
    say: Say,
    results: Path | None = None,
    *,
    pause: Callable[[World], None] = lambda world: None,
    ends_at: float | None = None,
) -> list[Outcome]:
    """
    Let the stream run, then run the cells one after the other, and count the rows after each.

    :param results: Each cell is appended to it as a line of JSON.
    :param pause: Waits before each cell, and after the last one.
    :param ends_at: Monotonic time; no cell begins after it, and one that has begun fails then.
    """
    world = World(made, say, ends_at=ends_at)
    made.stage.arrivals.start()
    world.until(lambda: made.airflow.has_dag(STREAM), "the dags")
    made.airflow.unpause(STREAM)
    if not cells or any(ACTS[act].needs_stream for act, _ in cells):
        world.until(lambda: works_again(world), "the stream to be well")
    outcomes: list[Outcome] = []
    for cell in cells:
        pause(world)
        if world.is_late:
            say(f"No time is left for {':'.join(cell)}")
            continue
        outcome = _counted(world, _run_cell(world, *cell))
        say(f"{outcome}")
        if results is not None:
            with results.open("a") as lines:
                lines.write(json.dumps(asdict(outcome)) + "\n")
        outcomes.append(outcome)
    pause(world)
    say(f"Ended on their own: {made.airflow.revived or 'no component'}")
    return outcomes


def _run_cell(world: World, name: str, part: str) -> Outcome:
    act, begun = ACTS[name], time.monotonic()
    world.run, world.before = ("", ""), world.epoch
    world.say(f"== {name}, killed: {part}")
    failure = ""
    try:
        if act.needs_stream:
            world.until(world.stream.is_well, "the stream to be well")
        world.before = world.epoch
        act.begin(world)
        if part != "none":
            world.until(
                lambda: act.midway(world) or act.over(world), "the middle of the act", MIDDLE_EVERY
            )
            world.say(f"Killed {PARTS[part](world)}")
        world.until(lambda: act.over(world), "the end of the act", seen=lambda: act.check(world))
        failure = act.check(world)
    except (RuntimeError, OSError) as err:
        failure = str(err)
    return Outcome(
        act=name,
        part=part,
        seconds=time.monotonic() - begun,
        failure=failure,
        drivers=world.made.stage.drivers.most,
    )


def _counted(world: World, outcome: Outcome) -> Outcome:
    """Count the rows of the live lane once it has read every file; the next files come afterwards."""
    if not ACTS[outcome.act].needs_stream:
        return outcome
    stage = world.made.stage
    stage.arrivals.pause()
    try:
        stage.stream = world.stream
        world.until(lambda: world.stream.has_passed(_final(stage.arrivals.dropped)), "all files")
        return replace(outcome, rows=_rows(world))
    except (RuntimeError, OSError) as err:
        return replace(
            outcome, failure=f"{outcome.failure} The rows were not counted: {err}".strip()
        )
    finally:
        stage.arrivals.resume()


def _final(days: int) -> datetime:
    """Return the watermark at which the rows of so many days are complete."""
    column = COLUMNS.index("InvoiceDate")
    newest = max(line[column] for line in Shop().day(days - 1))
    return datetime.fromisoformat(f"{newest}+00:00") - LATENESS


def _rows(world: World) -> Rows:
    stage, output = world.made.stage, ""
    if world.made.profile.is_stored:
        copy = stage.folder / "fetched"
        shutil.rmtree(copy, ignore_errors=True)
        output = str(fetch_output(stage.stream.output, copy))
    return Rows.of(stage.compare(output))
