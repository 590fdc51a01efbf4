"""Results of the kill program: a line of JSON a case, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.system.kills.matrix import (
    ICEBERG_SPARK,
    SINKS,
    STORES,
    VERSIONS,
    Case,
    Kill,
    Result,
)
from tests.system.kills.running import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case on one release."""

    version: str
    case: Case
    result: Result
    error: str = ""
    repaired: Result | None = None


def add(path: Path, version: str, outcomes: Iterable[Outcome]) -> None:
    """Add results to a file as they come."""
    with path.open("a", encoding="utf-8") as out:
        for one in outcomes:
            case = one.case
            out.write(
                json.dumps(
                    {
                        "version": version,
                        "store": case.store,
                        "sink": case.sink,
                        "kill": case.kill.value,
                        "batch": case.batch,
                        "result": one.result.value,
                        "error": one.error,
                        "repaired": one.repaired.value if one.repaired else None,
                    }
                )
                + "\n"
            )
            out.flush()


def read(path: Path) -> list[Measured]:
    """Return all results of a file; of a case that was measured twice, the later one."""
    found: dict[tuple[str, Case], Measured] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        case = Case(
            store=told["store"], sink=told["sink"], kill=Kill(told["kill"]), batch=told["batch"]
        )
        repaired = Result(told["repaired"]) if told["repaired"] else None
        found[told["version"], case] = Measured(
            version=told["version"],
            case=case,
            result=Result(told["result"]),
            error=told["error"],
            repaired=repaired,
        )
    return list(found.values())


def table(found: Iterable[Measured]) -> str:
    """Return the results as a Markdown table: a row for each sink and store, a column a release."""
    measured = list(found)
    lines = [
        "| sink | state | " + " | ".join(VERSIONS) + " |",
        "|---|---|" + "---|" * len(VERSIONS),
    ]
    for sink in SINKS:
        for store in STORES:
            cells = [
                _cell([m for m in measured if (m.version, m.case.sink, m.case.store) == key])
                for key in ((version, sink, store) for version in VERSIONS)
            ]
            if any(cells):
                shown = "none" if sink == "file without state" else store
                filled = [
                    cell or _why_absent(sink, store, version)
                    for cell, version in zip(cells, VERSIONS, strict=True)
                ]
                lines.append(f"| {sink} | {shown} | {' | '.join(filled)} |")
    return "\n".join(lines) + "\n"


def _why_absent(sink: str, store: str, version: str) -> str:
    """Return why a cell has no result."""
    if sink == "iceberg" and version != ICEBERG_SPARK:
        return "no jar"
    if version.startswith("3.") and (sink == "topic" or store.endswith("format 2")):
        return "not in this Spark"
    return "not measured"


def _cell(measured: list[Measured]) -> str:
    """Return one cell: how many cuts were exact, and which were not."""
    if not measured:
        return ""
    exact = sum(one.result is Result.EXACT for one in measured)
    others: dict[str, None] = {}
    for one in measured:
        if one.result is not Result.EXACT:
            repaired = ", repaired: exact" if one.repaired is Result.EXACT else ""
            others[f"{_WORDS[one.result]} after *{one.case.kill.value}*{repaired}"] = None
    return "; ".join([f"{exact} of {len(measured)} exact", *others])


_WORDS = {
    Result.REPEATED: "rows twice",
    Result.WRONG: "wrong rows",
    Result.DEAD: "fails for good",
}
