"""Run the version matrix; see the package."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.version_matrix.cells import SCHEMA_CHECK_OFF, STORES, VERSIONS, Cell, all_cells
from benchmarks.version_matrix.folders import prepare
from benchmarks.version_matrix.results import Results
from benchmarks.version_matrix.trips import Trip, control_and_up, first_steps, next_steps

_HERE: Final = Path(__file__).resolve().parent
_SCHEMA: Final = ("SCHEMA_NOT_COMPATIBLE", "SchemaNotCompatible")
_NEVER_SECONDS: Final = 3600


class Measuring:
    """
    Makes runs: all that one release must do in one step, in one session of it.

    :param runtimes: Virtual environment of each release.
    :param libraries: Folder with pandas, PyArrow and protobuf, for shapes that need them.
    """

    def __init__(self, work: Path, runtimes: Mapping[str, Path], libraries: Path | None) -> None:
        self._work, self._runtimes, self._libraries = work, runtimes, libraries
        self.results = Results(work / "results.jsonl")

    def make(self, trips: Iterable[Trip]) -> None:
        """Make the last step of every trip that was not made yet."""
        trips = list(trips)
        # The newest first: it is where most want to go.
        for version in reversed(VERSIONS):
            for _ in range(2):
                due = [t for t in trips if t.version == version and self.results.of(t) is None]
                if due:
                    self._session(version, due)

    def make_again_unchecked(self, trips: Iterable[Trip]) -> list[Trip]:
        """Make what failed by its schema alone once more, with Spark's check of it off."""
        failed = [trip for trip in trips if self._failed_by_schema(trip)]
        again = [trip.unchecked() for trip in failed]
        self.make(again)
        return again

    def _failed_by_schema(self, trip: Trip) -> bool:
        run = self.results.of(trip)
        told = f"{run['conditions']} {run.get('classes')}" if run and not run["ok"] else ""
        return any(sign in told for sign in _SCHEMA)

    def _session(self, version: str, trips: list[Trip]) -> None:
        began = time.monotonic()
        orders = self._work / "orders.jsonl"
        orders.write_text("".join(json.dumps(self._order(trip)) + "\n" for trip in trips))
        log = self._work / f"session-{version}.log"
        python = self._runtimes[version] / "bin" / "python"
        with log.open("ab") as out:
            subprocess.run(
                [python, _HERE / "session.py", orders, self.results.path],
                env=self._environment(version),
                stdout=out,
                stderr=out,
                timeout=_NEVER_SECONDS,
                check=False,
            )
        self.results.read()
        made = sum(self.results.of(trip) is not None for trip in trips)
        seconds = time.monotonic() - began
        print(f"Spark {version}: {made} of {len(trips)} runs in {seconds:.0f} s", flush=True)

    def _order(self, trip: Trip) -> dict[str, object]:
        before = self._folder(trip.before) if trip.before else None
        prepare(self._folder(trip), before, len(trip.steps) - 1)
        conf = {**STORES[trip.cell.store], **({} if trip.checks_schemas else SCHEMA_CHECK_OFF)}
        folder = str(self._folder(trip))
        return {"run": trip.run, "shape": trip.cell.shape, "folder": folder, "conf": conf}

    def _folder(self, trip: Trip) -> Path:
        return self._work / "runs" / trip.cell.name / "_".join(trip.steps).replace("!", "u")

    def forget(self, trips: Iterable[Trip]) -> None:
        """Remove the folders of trips that are over."""
        for trip in trips:
            shutil.rmtree(self._folder(trip), ignore_errors=True)

    def _environment(self, version: str) -> dict[str, str]:
        python = str(self._runtimes[version] / "bin" / "python")
        temporary = self._work / "temporary"
        temporary.mkdir(exist_ok=True)
        own = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "TZ": "UTC"}
        if self._libraries:
            own["PYTHONPATH"] = str(self._libraries)
        return {**os.environ, **own, "SPARK_LOCAL_DIRS": str(temporary)}


def _go_there_and_back(measuring: Measuring, cells: Sequence[Cell]) -> None:
    begun = first_steps(cells)
    measuring.make(begun)
    there = list(next_steps(begun))
    measuring.make(there)
    there += measuring.make_again_unchecked(there)
    back = list(next_steps(there))
    # The way back of an upgrade is what people need; down and up again comes last.
    for trips in (control_and_up(back), back):
        measuring.make(trips)
        measuring.make_again_unchecked(trips)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.version_matrix")
    parser.add_argument("--runtimes", type=json.loads, required=True, help="JSON: version to venv")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder to work in, and to resume in"
    )
    parser.add_argument("--libraries", type=Path, help="folder with pandas, PyArrow and protobuf")
    parser.add_argument("--only", nargs="*", default=[""], help="cells whose name begins so")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    runtimes = {version: Path(path) for version, path in given.runtimes.items()}
    measuring = Measuring(work, runtimes, given.libraries)
    cells = [cell for cell in all_cells() if cell.name.startswith(tuple(given.only))]
    for is_core in (True, False):
        _go_there_and_back(measuring, [cell for cell in cells if cell.is_core is is_core])
    return 0


if __name__ == "__main__":
    sys.exit(main())
