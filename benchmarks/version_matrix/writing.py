"""
Writes what was measured as the data that the package is shipped with.

``python -m benchmarks.version_matrix.writing --work DIR``; cells that were measured in another folder
stay as they are. Pairs that were not measured yet are left out, so that the gate calls them unknown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.version_matrix.cells import VERSIONS, Cell, all_cells
from benchmarks.version_matrix.results import Results
from benchmarks.version_matrix.trips import Trip

TARGET: Final = (
    Path(__file__).parents[2]
    / "airflow_streaming"
    / "gates"
    / "version"
    / "measured"
    / "versions.json"
)


def matrix_of(results: Results, measured: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the matrix; ``gates.version.matrix`` reads it.

    :param measured: Day of the measurement.
    :param known: The matrix so far; its other cells stay, and its runs count.
    :raises ValueError: it was measured with other releases.
    """
    if results.versions() != known["releases"]:
        raise ValueError(f"Measured with {results.versions()}, and before {known['releases']}.")
    cells = {}
    for cell in all_cells():
        pairs = dict(_pairs(results, cell)) or known["cells"].get(cell.name)
        if pairs:
            cells[cell.name] = pairs
    return {
        "format": 1,
        "measured": measured,
        "releases": results.versions(),
        "runs": results.count() + known["runs"],
        "cells": cells,
    }


def _pairs(results: Results, cell: Cell) -> Iterator[tuple[str, Any]]:
    for start in VERSIONS:
        for target in VERSIONS:
            seen = _seen(results, Trip(cell=cell, steps=(start, target)))
            if seen["there"]:
                yield f"{start}>{target}", _short(seen)


def _seen(results: Results, there: Trip) -> dict[str, str]:
    back = there.then(there.steps[0])
    without = there.unchecked()
    without_back = without.then(there.steps[0])
    return {
        "there": results.verdict(there),
        "back": results.verdict(back),
        "condition": results.condition(there),
        "back_condition": results.condition(back),
        "unchecked": results.verdict(without),
        "unchecked_back": results.verdict(without_back),
    }


def _short(seen: dict[str, str]) -> str | dict[str, str]:
    told = {key: value for key, value in seen.items() if value}
    return " ".join(told.values()) if told.keys() <= {"there", "back"} else told


def text_of(matrix: dict[str, Any]) -> str:
    """Return the matrix as text, one line a cell, so that a new measurement shows as a diff."""
    head = {key: value for key, value in matrix.items() if key != "cells"}
    lines = [f"{json.dumps(name)}: {json.dumps(pairs)}" for name, pairs in matrix["cells"].items()]
    start = json.dumps(head)[:-1]
    return f'{start}, "cells": {{\n' + ",\n".join(lines) + "\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.version_matrix.writing")
    parser.add_argument("--work", type=Path, required=True, help="folder that was measured in")
    given = parser.parse_args()
    results = Results(given.work / "results.jsonl")
    known = json.loads(TARGET.read_text(encoding="utf-8"))
    matrix = matrix_of(results, datetime.now(UTC).date().isoformat(), known)
    TARGET.write_text(text_of(matrix), encoding="utf-8")
    print(f"{sum(map(len, matrix['cells'].values()))} pairs of {len(matrix['cells'])} cells")


if __name__ == "__main__":
    main()
