"""Results: every run that was made, in a file of one line each, so that nothing is done twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks.version_matrix.trips import Trip

# Told in words only.
_SIGNS: Final = ("UnsupportedLogVersion", "cannot import name 'StatefulProcessor'")


class Results:
    """What was measured so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[str, dict[str, Any]] = {}
        self.read()

    def read(self) -> None:
        """Take in what sessions have added."""
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            # The last line of a killed session may be cut off.
            if line.endswith("}"):
                run = json.loads(line)
                # What came to no end says nothing of the checkpoint, and is tried again.
                if run.get("conditions") != ["TIMEOUT"]:
                    self._runs[run["run"]] = run

    def of(self, trip: Trip) -> dict[str, Any] | None:
        """Return the result of a trip's last step; ``None`` before it was made."""
        return self._runs.get(trip.run)

    def count(self) -> int:
        """Return how many runs were made."""
        return len(self._runs)

    def condition(self, trip: Trip) -> str:
        """Return Spark's innermost error condition of a run that failed; empty for any other."""
        run = self.of(trip)
        if run is None or run["ok"]:
            return ""
        for sign in _SIGNS:
            if sign in run["message"]:
                return sign
        inner = [condition for condition in run["conditions"] if condition != "STREAM_FAILED"]
        named = [name for name in run.get("classes", ()) if name[:1].isupper()]
        named = [name for name in named if not name.startswith(("Py4J", "Streaming"))]
        return (inner or named or run["conditions"] or [run["message"][:60]])[-1]

    def versions(self) -> dict[str, str]:
        """Return the exact release of each version that took part."""
        exact = {run["spark"] for run in self._runs.values()}
        return {".".join(one.split(".")[:2]): one for one in sorted(exact)}

    def verdict(self, trip: Trip) -> str:
        """
        Return what became of a trip's last step.

        ``same`` rows in the same batches as without another Spark, ``moved`` to other batches,
        ``other`` rows, or ``failed``; empty when it, or what it is compared with, was not made.
        """
        run = self.of(trip)
        if run is None:
            return ""
        if not run["ok"]:
            return "failed"
        wanted = self._batches(trip.control, trip)
        if wanted is None:
            return ""
        got = _with_rows(run["batches"])
        if got == wanted:
            return "same"
        return "moved" if _all(got) == _all(wanted) else "other"

    def _batches(self, control: Trip, trip: Trip) -> dict[str, list[str]] | None:
        made = [self.of(control)]
        before = trip.before
        failed = before is not None and (self.of(before) or {}).get("ok") is False
        if failed and control.before is not None:
            # Nothing came of the step before, so that its rows come now.
            made.append(self.of(control.before))
        if any(run is None or not run["ok"] for run in made):
            return None
        batches: dict[str, list[str]] = {}
        for run in made:
            batches |= _with_rows(run["batches"] if run else {})
        return batches


def _with_rows(batches: dict[str, list[str]]) -> dict[str, list[str]]:
    return {batch: rows for batch, rows in batches.items() if rows}


def _all(batches: dict[str, list[str]]) -> Counter[str]:
    return Counter(row for rows in batches.values() for row in rows)
