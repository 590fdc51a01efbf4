"""
Does the version gate say what Spark does? For every measured pair, on its real checkpoint.

``python -m tests.system.version_truth --work DIR`` takes the folder that
``python -m benchmarks.version_matrix`` has measured in, asks the gate about every checkpoint with
every other version, once with its plan and once by the checkpoint alone, and compares what it says
with what Spark did. ``--record`` writes the checkpoints down for the unit tests.

The process ends with 1 when the gate let anything through that failed or gave other rows, or when
it refused more than one in fifty of what was fine.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.version.judge import can_come_back
from airflow_streaming.gates.version_gate import gate_version, telling_schemas
from airflow_streaming.storage.folders import open_folders
from benchmarks.version_matrix.cells import SCHEMA_CHECK_OFF, VERSIONS, all_cells
from benchmarks.version_matrix.results import Results
from benchmarks.version_matrix.trips import Trip
from tests.unit.gates.version.measured import FILE, Measured, measured_checkpoints, plan_of, text_of

MOST_REFUSED: Final = 0.02

_GOOD: Final = ("same", "moved")
_GO: Final = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)


class Case(NamedTuple):
    """One question to the gate and what Spark did."""

    question: str
    trip: Trip
    said: GateDecision
    truth: str
    rules: tuple[str, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether the gate let through what is not fine."""
        return self.said in _GO and self.truth not in _GOOD

    @property
    def is_too_strict(self) -> bool:
        """Whether the gate refused what is fine."""
        return self.said is GateDecision.NOT_ALLOWED and self.truth in _GOOD


def cases(work: Path, results: Results) -> Iterator[Case]:
    for cell in all_cells():
        for start in filter(cell.exists_in, VERSIONS):
            for target in VERSIONS:
                trip = Trip(cell=cell, steps=(start, target))
                if results.verdict(trip):
                    yield from _asked(work, results, trip)


def _asked(work: Path, results: Results, trip: Trip) -> Iterator[Case]:
    start, target = trip.steps
    uri = str(work / "runs" / trip.cell.name / start / "checkpoint")
    back = trip.then(start)
    if results.verdict(trip) == "failed" and results.verdict(trip.unchecked()) in _GOOD:
        back = trip.unchecked().then(start)
    for how, plans in (("plan", [plan_of(trip.cell.shape)]), ("alone", [])):
        there = gate_version(uri, start, target, plans=plans)
        rules = tuple(finding.rule for finding in there.findings)
        yield Case(f"there, {how}", trip, there.decision, results.verdict(trip), rules)
        if results.verdict(trip.unchecked()):
            off = gate_version(uri, start, target, plans=plans, conf=SCHEMA_CHECK_OFF)
            truth = results.verdict(trip.unchecked())
            yield Case(f"there with conf, {how}", trip, off.decision, truth, rules)
        if results.verdict(back):
            found = gate_version(uri, start, target, plans=plans, judge=can_come_back)
            rules = tuple(finding.rule for finding in found.findings)
            yield Case(f"back, {how}", trip, found.decision, results.verdict(back), rules)


def recorded(work: Path, results: Results) -> Iterator[Measured]:
    """Return the checkpoint that each Spark wrote of each cell, as another Spark found it."""
    for cell in all_cells():
        for version in VERSIONS:
            path = work / "runs" / cell.name / version / "checkpoint"
            if results.of(Trip(cell=cell, steps=(version,))) is None or not path.exists():
                continue
            folders = open_folders(str(path))
            report = Reader(folders).inspect(contents=False)
            yield Measured(
                cell=cell.name,
                version=version,
                checkpoint=report,
                schemas=tuple(telling_schemas(folders, report) or ()),
            )


def _print(found: list[Case]) -> None:
    table = Counter((case.question, str(case.said), case.truth) for case in found)
    for (question, said, truth), count in sorted(table.items()):
        _say(f"{question:24} gate {said:26} Spark {truth:7} {count:5}")
    for case in found:
        if case.is_wrong or case.is_too_strict:
            what = "WRONG" if case.is_wrong else "too strict"
            _say(f"{what}: {case.question} {case.trip.run} {case.truth} {case.rules}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.system.version_truth")
    parser.add_argument("--work", type=Path, required=True, help="folder that was measured in")
    parser.add_argument("--record", action="store_true", help="write for the unit tests")
    given = parser.parse_args()
    results = Results(given.work / "results.jsonl")
    if given.record:
        fresh = list(recorded(given.work, results))
        names = {one.name for one in fresh}
        kept = (one for one in measured_checkpoints() if one.name not in names)
        FILE.write_text(text_of([*kept, *fresh]), encoding="utf-8")
    found = list(cases(given.work, results))
    _print(found)
    wrong = sum(case.is_wrong for case in found)
    fine = sum(case.truth in _GOOD for case in found)
    strict = sum(case.is_too_strict for case in found)
    _say(f"{len(found)} questions: {wrong} wrong, {strict} of {fine} fine ones refused")
    return int(wrong > 0 or strict > MOST_REFUSED * fine)


if __name__ == "__main__":
    sys.exit(main())
