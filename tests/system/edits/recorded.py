"""What was found, by Spark version and edit, as a file of the corpus."""

from __future__ import annotations

import json
from typing import Any, Final

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.bases import BASES
from tests.system.edits.edit import CORPUS, Edit, Truth
from tests.system.edits.trial import Tried

FILE: Final = CORPUS / "truth.json"


class Truths:
    """The truths of one Spark version; a new one is on disk at once."""

    def __init__(self, spark: str, tried: dict[str, Tried]) -> None:
        self.spark, self._tried = spark, tried

    @classmethod
    def of(cls, spark: str) -> Truths:
        """Return what was found with that Spark."""
        return cls(spark, {name: _read(found) for name, found in _all().get(spark, {}).items()})

    def __contains__(self, edit: str) -> bool:
        return edit in self._tried

    def __getitem__(self, edit: str) -> Tried:
        return self._tried[edit]

    def get(self, edit: str) -> Tried | None:
        """Return the truth of an edit; ``None`` where it was not tried."""
        return self._tried.get(edit)

    def random_edits(self) -> list[Edit]:
        """Return the edits made at random that were tried: what they changed, not their scripts."""
        bases = {base.name: base for base in BASES}
        return [
            Edit(
                name=name,
                base=bases[name.partition(".")[0]],
                theme=tried.made.partition(":")[0],
                changes=(),
                says=GateDecision.UNKNOWN,
                why=tried.made,
            )
            for name, tried in self._tried.items()
            if tried.made
        ]

    def note(self, edit: str, tried: Tried) -> None:
        """Keep the truth of one edit."""
        self._tried[edit] = tried
        every = _all()
        every[self.spark] = {name: _shown(self._tried[name]) for name in sorted(self._tried)}
        lines = [
            f" {json.dumps(spark)}: {{\n"
            + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
            + "\n }"
            for spark, found in sorted(every.items())
        ]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def _shown(tried: Tried) -> dict[str, Any]:
    shown: dict[str, Any] = {"truth": tried.truth.value}
    if tried.condition:
        shown["condition"] = tried.condition
    if tried.made:
        shown["made"] = tried.made
    return {**shown, "rows": tried.rows} if tried.rows else shown


def _read(found: dict[str, Any]) -> Tried:
    rows = tuple((a, b, c) for a, b, c in found.get("rows", ()))
    return Tried(
        truth=Truth(found["truth"]),
        condition=found.get("condition", ""),
        rows=rows,
        made=found.get("made", ""),
    )
