"""One edit, tried: the old code's checkpoint goes on with the new code; beside it, the new code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from airflow_streaming.model.jobs.migration import MigrationOrder
from airflow_streaming.model.spark.plan import ScriptPlan
from tests.patience import PATIENCE
from tests.quick_java import spark_environment
from tests.system.edits.edit import SETTINGS, Base, Edit, Truth
from tests.system.edits.input import Arrivals
from tests.system.edits.plans import recorded_folder
from tests.system.edits.rows import judged, stamps, written

_RUN: Final = re.compile(r"/\S*?/(?:on|fresh|old)/[^/]+")

PROGRAM: Final = "tests.system.edits.spark_side"
PLAN_PROGRAM: Final = "tests.system.edits.plan_side"
REPOSITORY: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """
    What came of an edit.

    :param condition: Spark's error conditions, the innermost last, or its words where it has none.
    :param rows: For each phase the rows that were written, those of the new code alone, and how
        many of both together have no counterpart.
    :param made: The change itself where it was made at random: its kind, and the lines that differ.
    """

    truth: Truth
    condition: str = ""
    rows: tuple[tuple[int, int, int], ...] = ()
    made: str = ""


class Spark:
    """A Spark in its own process that runs one script after another."""

    def __init__(self, runtime: Path, program: str = PROGRAM) -> None:
        self._process = subprocess.Popen(
            [str(runtime / "bin/python"), "-m", program],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=spark_environment(runtime),
            text=True,
        )
        self.version = str(self._answer()["ready"])

    def run(self, base: Base, source: str, folder: Path, *, late: bool = False) -> dict[str, Any]:
        """
        Run a script on the checkpoint in a folder, until its input is read.

        :param late: Leave out the rows of the first phase.
        """
        return self._ask(
            {
                "script": str(base.script),
                "source": source,
                "arguments": [text.format(run=folder) for text in base.arguments],
                "conf": _conf(base, folder),
                "late": late,
            }
        )

    def migrate(self, base: Base, order: MigrationOrder, folder: Path) -> dict[str, Any]:
        """Migrate a copied checkpoint and return the answer."""
        told = self._ask({"migration": order.to_dict(), "conf": _conf(base, folder)})
        found: dict[str, Any] = told["answer"]
        return found

    def plan(self, base: Base, source: str, folder: Path) -> ScriptPlan:
        """Return what a script would start; of a Spark that runs the program for plans."""
        with tempfile.TemporaryDirectory() as scratch:
            script, result = Path(scratch) / "script.py", Path(scratch) / "plan.json"
            script.write_text(source)
            arguments = [text.format(run=folder) for text in base.arguments]
            order = {"result": str(result), "seconds": 0, "application": str(base.script.name)}
            order = {**order, "source": str(script), "arguments": arguments}
            told = self._ask({"order": order, "conf": _conf(base, folder)})
        text = json.dumps(told["plan"]).replace(str(folder), recorded_folder(base.name))
        return ScriptPlan.from_dict(json.loads(text))

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                found: dict[str, Any] = json.loads(line[1:])
                return found
        raise RuntimeError(f"Spark ended with {self._process.wait()}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End Spark."""
        self._process.communicate(timeout=PATIENCE) if err is None else self._process.kill()
        self._process.wait(PATIENCE)


def _conf(base: Base, folder: Path) -> dict[str, str]:
    return {k: v.format(run=folder) for k, v in {**SETTINGS, **base.conf}.items()}


class Trials:
    """
    Trials of edits.

    :param folder: Where everything is kept; the old code's checkpoint of a base is made once, and
        those that the folder has from an earlier time are used.
    """

    def __init__(self, spark: Spark, arrivals: Arrivals, folder: Path) -> None:
        self._spark, self._arrivals, self._folder = spark, arrivals, folder
        self._written: dict[str, Counter[str]] = {}

    def old(self, base: Base) -> Path:
        """Return the folder in which the old code of a base has run through the first phase."""
        folder = self._folder / "old" / base.name
        kept = folder.with_suffix(".rows.json")
        if base.name not in self._written and kept.exists():
            self._written[base.name] = Counter(json.loads(kept.read_text()))
        if base.name not in self._written:
            shutil.rmtree(folder, ignore_errors=True)
            self._written[base.name] = self._phase(base, base.source, folder, 0)
            kept.write_text(json.dumps(self._written[base.name]))
        return folder

    def tried(self, edit: Edit) -> Tried:
        """Try an edit."""
        base, fresh = edit.base, self._folder / "fresh" / edit.name
        old = self.old(base)
        folder = moved(old, self._folder / "on" / edit.name)
        # Of a trial that was killed.
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            rows, failed = self._goes_on(edit, folder)
            if failed is not None and failed.is_of_state:
                return Tried(truth=Truth.FAILED, condition=failed.condition)
            expected = [self._phase(base, edit.source, fresh, phase) for phase in range(3)]
        except SparkFailed as err:
            return Tried(truth=Truth.BROKEN, condition=err.condition)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(folder)
        if failed is not None:
            return Tried(truth=Truth.FAILED, condition=failed.condition)
        pairs = list(zip([self._written[base.name], *rows], expected, strict=True))
        counts = tuple((a.total(), b.total(), ((a - b) + (b - a)).total()) for a, b in pairs)
        return Tried(truth=judged(*pairs), rows=counts)

    def _goes_on(self, edit: Edit, folder: Path) -> tuple[list[Counter[str]], SparkFailed | None]:
        rows: list[Counter[str]] = []
        try:
            rows += [self._phase(edit.base, edit.source, folder, phase) for phase in (1, 2)]
        except SparkFailed as err:
            return rows, err
        return rows, None

    def _phase(
        self, base: Base, source: str, folder: Path, phase: int, *, late: bool = False
    ) -> Counter[str]:
        before = stamps(folder / "output")
        self._arrivals.arrive(phase, folder / "input")
        answer = self._spark.run(base, source, folder, late=late)
        if "error" in answer:
            raise SparkFailed(answer)
        return written(folder / "output", before)


class SparkFailed(RuntimeError):
    """A query of the script failed."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{answer['error']}\n{answer['text']}")
        # The outermost condition of every query is the same and says nothing.
        told = [c for c in dict.fromkeys(answer["conditions"]) if c != "STREAM_FAILED"]
        self.is_of_state = any("STATE" in condition for condition in told)
        """It cannot be the new code alone, which had no state to go on from."""
        self.condition = " > ".join(told) or words_of(str(answer["error"]))


def words_of(error: str) -> str:
    """Return what Spark said where its error has no name; without what differs in every run."""
    said = error.rpartition("terminated with exception: ")[2].partition(" SQLSTATE")[0]
    return _RUN.sub("/run", said.partition(" | ")[0])[:120]


def moved(old: Path, new: Path) -> Path:
    """Copy a run to another folder; the paths that Spark has written down go with it."""
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(old, new, ignore=shutil.ignore_patterns(".*.crc"))
    logs = [*new.glob("checkpoint/**/sources/*/*"), *new.glob("checkpoint/**/_metadata/v2/*")]
    for path in [*logs, *new.glob("output/**/_spark_metadata/*")]:
        path.write_text(path.read_text().replace(str(old), str(new)))
    return new
