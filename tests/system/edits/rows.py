"""What a run has written, as a bag of rows, whatever the sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.system.edits.edit import Truth

Stamps = Mapping[Path, tuple[int, int]]


def stamps(output: Path) -> Stamps:
    """Return what tells whether a file was written since."""
    found = (path for path in output.rglob("*") if path.is_file() and _is_data(path, output))
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


def written(output: Path, before: Stamps) -> Counter[str]:
    """Return the rows of files that are new, or were written again; with the sink's folder."""
    rows: Counter[str] = Counter()
    for path, stamp in stamps(output).items():
        if before.get(path) == stamp:
            continue
        folders = path.relative_to(output).parts[:-1]
        partition = dict(part.split("=", 1) for part in folders if "=" in part)
        place = "/".join(part for part in folders if "=" not in part)
        for row in _rows(path):
            rows[json.dumps([place, {**row, **partition}], sort_keys=True, default=str)] += 1
    return rows


def judged(
    before: tuple[Counter[str], Counter[str]],
    second: tuple[Counter[str], Counter[str]],
    third: tuple[Counter[str], Counter[str]],
) -> Truth:
    """Compare the rows of each phase with those of the new code run from the first batch on."""
    if third[0] != third[1]:
        return Truth.OTHER
    if second[0] != second[1]:
        return Truth.SETTLES
    return Truth.SAME if before[0] == before[1] else Truth.NOT_REVISED


def _is_data(path: Path, output: Path) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.relative_to(output).parts)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        yield from pyarrow.parquet.ParquetFile(path).read().to_pylist()
    elif path.name.startswith("batch-"):
        yield from json.loads(path.read_text())
    else:
        yield from map(json.loads, path.read_text().splitlines())
