"""
What a rehearsal says of edits that the gate calls unknown, beside what Spark made of them.

``python -m tests.system.edits.rehearsed --runtime .runtimes/spark-4.3 [--only profiles] [--broken 4]``
runs ``airflow-streaming rehearse --compare`` on the recorded checkpoint of each edit's base, with the
input of both later phases, and writes the answers down. ``--table`` prints what was found and runs
nothing.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.gates.findings import GateDecision
from tests.system.edits.catalogue import EDITS
from tests.system.edits.edit import CORPUS, SETTINGS, Base, Edit, Truth
from tests.system.edits.input import PHASES, arrivals
from tests.system.edits.predicted import FITTING, predictions, unpacked
from tests.system.edits.random_edits import random_edits
from tests.system.edits.recorded import Truths

FILE: Final = CORPUS / "rehearsed.json"
SPARK: Final = "4.3.0"
_SEED: Final = 15
_COMMAND: Final = (sys.executable, "-m", "airflow_streaming.cli.main", "rehearse", "--compare")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """
    What a rehearsal said of an edit.

    :param answers: Of each query.
    :param seconds: With copying and all starts of Spark.
    """

    decision: GateDecision
    answers: Mapping[str, str]
    seconds: float

    @property
    def is_decided(self) -> bool:
        """Tell whether the edit is unknown no longer."""
        return self.decision is not GateDecision.UNKNOWN

    def is_too_lenient(self, truth: Truth) -> bool:
        """Tell whether it lets through what Spark fails at, or gets wrong."""
        return truth not in FITTING[self.decision]


def rehearsals() -> dict[str, Rehearsal]:
    """Return what was found, by the name of the edit."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {name: _read(one) for name, one in found.items()}


def unknown_edits(folder: Path) -> Iterator[Edit]:
    """
    Return the edits that the gate calls unknown in any order, those first that run from scratch.

    :param folder: Where the checkpoints were unpacked.
    """
    truths = Truths.of(SPARK)
    made = {edit.name: edit for edit in random_edits()}
    edits = [*EDITS, *(made[one.name] for one in truths.random_edits())]
    found = [
        one
        for one in predictions(folder, SPARK, knows_past=True, edits=edits)
        if one.report.decision is GateDecision.UNKNOWN and one.tried is not None
    ]
    # Whatever time there is, those that were rehearsed are a fair sample of both sorts.
    random.Random(_SEED).shuffle(found)
    found.sort(key=lambda one: one.tried is not None and one.tried.truth is Truth.BROKEN)
    yield from (one.edit for one in found)


def rehearsed(edit: Edit, runtime: Path, run: Path, scratch: Path) -> Rehearsal:
    """
    Rehearse an edit on the recorded checkpoint of its base.

    :param run: The folder of the base's run, with its checkpoint.
    """
    base = edit.base
    held_back(run)
    scripts = {"old": base.source, "new": edit.source}
    for name, source in scripts.items():
        (scratch / name).mkdir(exist_ok=True)
        (scratch / name / base.script.name).write_text(source)
    begun = time.monotonic()
    made = subprocess.run(
        [
            *_COMMAND,
            *("--checkpoint", str(run / "checkpoint"), "--json"),
            *("--old-script", str(scratch / "old" / base.script.name)),
            *("--script", str(scratch / "new" / base.script.name)),
            *("--runtime", str(runtime.absolute())),
            *_conf(base, run),
            "--",
            *(text.format(run=run) for text in base.arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(made.stdout) if made.stdout.strip() else None
    if told is None:
        raise SystemExit(f"{edit.name}: {made.stderr}")
    for query in told["queries"]:
        print(f"  {query['query'] or '-'}: {query['answer']}: {query['reason']}", flush=True)
    return _read(
        {
            "decision": told["decision"],
            "answers": {query["query"]: query["answer"] for query in told["queries"]},
            "seconds": round(time.monotonic() - begun, 1),
        }
    )


def held_back(run: Path) -> None:
    """Let all input arrive now: after what the recorded checkpoint has seen, whenever that was."""
    for phase in range(len(PHASES)):
        arrivals().arrive(phase, run / "input", int(time.time()))


def _conf(base: Base, run: Path) -> Iterator[str]:
    for key, value in {**SETTINGS, **base.conf}.items():
        yield from ("--conf", f"{key}={value.format(run=run)}")


def _note(name: str, found: Rehearsal) -> None:
    every = {**rehearsals(), name: found}
    lines = [f" {json.dumps(key)}: {json.dumps(_shown(every[key]))}" for key in sorted(every)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _shown(found: Rehearsal) -> dict[str, Any]:
    return {
        "decision": found.decision.value,
        "answers": dict(found.answers),
        "seconds": found.seconds,
    }


def _read(found: Mapping[str, Any]) -> Rehearsal:
    return Rehearsal(
        decision=GateDecision(found["decision"]),
        answers=found["answers"],
        seconds=found["seconds"],
    )


def main() -> None:
    """Rehearse what was not rehearsed yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path)
    parser.add_argument("--only", nargs="*", default=[""], help="edits whose name begins so")
    parser.add_argument("--again", action="store_true", help="those too that were rehearsed")
    parser.add_argument("--broken", type=int, default=4, help="of those that never run, so many")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other edit after it")
    parser.add_argument("--table", action="store_true", help="print what was found, run nothing")
    args = parser.parse_args()
    if not args.table:
        _rehearse(args)
    truths, found = Truths.of(SPARK), rehearsals()
    counts = Counter((one.decision, truths[name].truth) for name, one in found.items())
    print(f"{len(found)} edits", *Truth, sep="\t")
    for decision in GateDecision:
        print(decision, *(counts[decision, truth] for truth in Truth), sep="\t")
    seconds = sorted(one.seconds for one in found.values())
    lenient = [name for name, one in found.items() if one.is_too_lenient(truths[name].truth)]
    decided = sum(one.is_decided for one in found.values())
    print(
        f"decided: {decided} of {len(found)}; seconds: median {statistics.median(seconds):.0f}, "
        f"{seconds[0]:.0f} to {seconds[-1]:.0f}; too lenient: {lenient}"
    )


def _rehearse(args: argparse.Namespace) -> None:
    begun, truths, broken = time.monotonic(), Truths.of(SPARK), 0
    with tempfile.TemporaryDirectory(prefix="edits-") as name:
        folder, scratch = Path(name) / "runs", Path(name) / "scripts"
        folder.mkdir()
        scratch.mkdir()
        unpacked(folder)
        for edit in unknown_edits(folder):
            broken += truths[edit.name].truth is Truth.BROKEN
            if broken > args.broken or time.monotonic() - begun > args.seconds:
                break
            if not edit.name.startswith(tuple(args.only)):
                continue
            if edit.name in rehearsals() and not args.again:
                continue
            found = rehearsed(edit, args.runtime, folder / edit.base.name, scratch)
            _note(edit.name, found)
            truth = truths[edit.name].truth
            print(f"{edit.name}: {found.decision}, Spark: {truth}; {found.seconds} s", flush=True)


if __name__ == "__main__":
    main()
