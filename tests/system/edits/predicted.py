"""
What the gate says of each edit, from recorded plans and checkpoints, without Spark.

``python -m tests.system.edits.predicted [--spark 4.3.0] [--random] [--unknown-past]`` prints the table: what
the gate said, what Spark made of it, and every answer that differs from the careful colleague's.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from airflow_streaming.gates import change_gate
from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision, GateReport
from tests.system.edits.catalogue import EDITS
from tests.system.edits.edit import Edit, Truth
from tests.system.edits.plans import CHECKPOINTS, Plans, names_paths, recorded_folder
from tests.system.edits.recorded import Truths
from tests.system.edits.trial import Tried

FITTING: Final[Mapping[GateDecision, frozenset[Truth]]] = {
    GateDecision.ALLOWED: frozenset({Truth.SAME, Truth.NOT_REVISED}),
    # A function that raises does so from the first batch on too: no state is hurt, and nothing but
    # a run shows it.
    GateDecision.ALLOWED_WITH_CONSEQUENCE: frozenset(
        {Truth.SAME, Truth.NOT_REVISED, Truth.SETTLES, Truth.BROKEN}
    ),
    GateDecision.UNKNOWN: frozenset(Truth),
    GateDecision.NOT_ALLOWED: frozenset(Truth),
}
"""Which truths an answer leaves room for."""

FINE: Final = frozenset({Truth.SAME, Truth.NOT_REVISED})
REFUSING: Final = frozenset({GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED})


class Prediction(NamedTuple):
    """
    The gate's answer to an edit, and what Spark made of it.

    :param tried: ``None`` where the edit was not tried with this Spark.
    """

    edit: Edit
    report: GateReport
    tried: Tried | None

    @property
    def is_too_lenient(self) -> bool:
        """Tell whether the gate let through what Spark fails at, or gets wrong."""
        return self.tried is not None and self.tried.truth not in FITTING[self.report.decision]

    @property
    def is_harmless(self) -> bool:
        """Tell whether Spark got it right."""
        return self.tried is not None and self.tried.truth in FINE

    @property
    def is_stricter_than_spark(self) -> bool:
        """Tell whether the gate refused what Spark got right."""
        return self.is_harmless and self.report.decision in REFUSING

    @property
    def shown(self) -> str:
        """Return the edit with its findings, for people."""
        truth = "not tried" if self.tried is None else self.tried.truth
        rules = ", ".join(f"{f.rule} ({f.severity})" for f in self.report.findings)
        made = "" if self.tried is None else self.tried.made
        return f"{self.edit.name}: {self.report.decision}, Spark: {truth}; {rules} {made}".rstrip()


def unpacked(folder: Path) -> None:
    """Unpack the recorded checkpoints, a folder for each base."""
    with tarfile.open(CHECKPOINTS) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.glob("*/checkpoint/**/*"):
        if path.is_file() and names_paths(path):
            base = path.relative_to(folder).parts[0]
            text = path.read_text().replace(recorded_folder(base), str(folder / base))
            path.write_text(text)


_looked: Final = cache(change_gate.look_at)


def predictions(
    folder: Path, spark: str, *, knows_past: bool, edits: Iterable[Edit] = EDITS
) -> Iterator[Prediction]:
    """
    Ask the gate about every edit that was planned with a Spark.

    :param folder: Where the checkpoints were unpacked.
    :param knows_past: The old plans are known; else the gate has the checkpoints alone.
    """
    plans, truths = Plans.of(spark), Truths.of(spark)
    for edit in edits:
        if edit.name not in plans:
            continue
        old, new = plans[edit.base.name], plans[edit.name]
        run = folder / edit.base.name
        places = {
            plan.query: str(run / "checkpoint" / _inside(plan.checkpoint)) for plan in old.queries
        }
        # A base has one checkpoint and some ten edits.
        with patch.object(change_gate, "look_at", _looked):
            report = gate_change(places, old.queries if knows_past else (), new)
        yield Prediction(edit, report, truths.get(edit.name))


def _inside(checkpoint: str) -> str:
    return checkpoint.rpartition("/checkpoint")[2].strip("/")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", default="4.3.0")
    parser.add_argument("--random", action="store_true", help="the edits that were made at random")
    parser.add_argument("--unknown-past", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edits-") as name:
        unpacked(Path(name))
        edits = Truths.of(args.spark).random_edits() if args.random else EDITS
        past = not args.unknown_past
        found = list(predictions(Path(name), args.spark, knows_past=past, edits=edits))
    counts = Counter((one.report.decision, one.tried.truth) for one in found if one.tried)
    print(f"{len(found)} edits, {counts.total()} tried", *Truth, sep="\t")
    for decision in GateDecision:
        print(decision, *(counts[decision, truth] for truth in Truth), sep="\t")
    harmless = Counter(one.report.decision for one in found if one.is_harmless)
    refused = harmless[GateDecision.NOT_ALLOWED]
    print(
        f"Of {harmless.total()} harmless ones {harmless.total() - refused} are not refused, "
        f"{harmless[GateDecision.UNKNOWN]} of them unknown."
    )
    for title, chosen in (
        ("TOO LENIENT", [one for one in found if one.is_too_lenient]),
        ("Stricter than Spark", [one for one in found if one.is_stricter_than_spark]),
        (
            "Other than the colleague",
            [o for o in found if not args.random and o.report.decision is not o.edit.says],
        ),
    ):
        print(f"\n{title}: {len(chosen)}")
        for one in chosen:
            print(f"  {one.shown} [colleague: {one.edit.says}]")


if __name__ == "__main__":
    main()
