"""
A query's folders as a kill would have left them: put together of what lay there before and after a batch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.system.kills.matrix import Part

ROWS: Final = 20
OVERLAP: Final = 10
"""Rows of each file that the file before has too, so that state which is lost shows in the output."""
LOG: Final = "_spark_metadata"
_FIRST: Final = re.compile(r"state/[0-9]+/0/")


def add_file(folder: Path, number: int) -> None:
    """Write one input file; they are read in the order of their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    first = number * (ROWS - OVERLAP)
    path = folder / f"{number:03}.json"
    rows = ({"k": first + place, "v": _age(number, place)} for place in range(ROWS))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _age(number: int, place: int) -> int:
    """Return 10 or more for rows that the file before has too; the first file has none of these."""
    return 10 if number and place < OVERLAP else 0


def keys(files: int) -> list[int]:
    """Return the keys of so many files, each once."""
    return list(range((files - 1) * (ROWS - OVERLAP) + ROWS))


@dataclass(frozen=True, slots=True)
class Folders:
    """
    Where one query works, and what lay there before and after its last batch.

    :param root: Has ``checkpoint``, ``output`` and the table of a lake.
    """

    root: Path
    before: Path
    after: Path

    @property
    def checkpoint(self) -> Path:
        """The checkpoint."""
        return self.root / "checkpoint"

    @property
    def output(self) -> Path:
        """The sink's folder."""
        return self.root / "output"

    def keep(self, place: Path) -> None:
        """Keep what lies there now."""
        shutil.rmtree(place, ignore_errors=True)
        if self.root.exists():
            shutil.copytree(self.root, place)
        else:
            place.mkdir(parents=True)

    def cut(self, parts: frozenset[Part]) -> None:
        """Lay the folders as a kill leaves them that let the last batch write some parts."""
        shutil.rmtree(self.root, ignore_errors=True)
        # The folder of a table of the lake is found by a link to here.
        (self.root / "lake").mkdir(parents=True)
        self._take(self.before, lambda _: True)
        self._take(self.after, lambda path: part_of(path) in parts)

    def _take(self, place: Path, is_taken: Callable[[str], bool]) -> None:
        for path in sorted(place.rglob("*")):
            relative = path.relative_to(place).as_posix()
            if path.is_file() and is_taken(relative):
                target = self.root / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def part_of(path: str) -> Part:
    """Return the part of a batch that a file is of."""
    top, _, rest = path.partition("/")
    if top != "checkpoint":
        return (
            Part.DATA
            if top == "output" and not rest.startswith(LOG) and ".json" in rest
            else Part.SINK
        )
    kind = rest.partition("/")[0]
    if kind == "state" and "/_metadata/" not in rest:
        return Part.FIRST_STATE if _FIRST.match(rest) else Part.OTHER_STATE
    return {"commits": Part.COMMIT, "offsets": Part.PLAN, "state": Part.PLAN}.get(kind, Part.SOURCE)
