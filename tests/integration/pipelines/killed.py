"""One example that is killed in the middle: its versions, its gate, and what it wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateReport
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.testing import StreamTester
from tests.system.edits.edit import Base, replaced
from tests.system.edits.trial import Spark

Changes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """
    Another version of an example.

    :param changes: Replaced in the script.
    :param arguments: Given beside the others.
    """

    changes: Changes = ()
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    One example, and what becomes of it.

    :param script: Below the folder of the dags.
    :param query: The query that is in the middle when it is killed: the slowest.
    :param files: How many files there are; the last arrives after the kill.
    :param per_batch: Files of one batch of the first version.
    :param places: Arguments of input and output; ``{run}`` is the folder of a run,
        ``{broker}`` Kafka's address.
    :param arguments: The others.
    :param conf: Of both versions.
    :param upgrade: The version that goes on.
    :param refused: Versions that must not.
    :param check: Compares the output with plain Python, or with a batch run.
    :param py_files: Beside the script.
    """

    script: str
    feed: str
    query: str
    files: int
    per_batch: int = 1
    places: tuple[str, ...] = ("--input", "{run}/in", "--output", "{run}/out")
    arguments: tuple[str, ...] = ("--trigger-seconds", "0")
    conf: Mapping[str, str] = field(default_factory=dict)
    upgrade: Version
    refused: tuple[Version, ...] = ()
    check: Callable[[Run], None]
    py_files: tuple[str, ...] = ()


class Run:
    """One example in a folder: its first version, and what comes after."""

    def __init__(
        self,
        example: Example,
        tester: StreamTester,
        planning: Spark,
        dags: Path,
        folder: Path,
        broker: str = "",
    ) -> None:
        self.example, self.tester, self._planning = example, tester, planning
        self.script, self.folder, self.broker = dags / example.script, folder, broker
        self.checkpoint, self.output = folder / "checkpoint", folder / "out"
        self._old: ScriptPlan | None = None

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the first version."""
        return self._formatted((*self.example.places, *self.example.arguments))

    def _formatted(self, arguments: tuple[str, ...]) -> list[str]:
        return [text.format(run=self.folder, broker=self.broker) for text in arguments]

    @property
    def _given(self) -> dict[str, Any]:
        files = [self.script.parent / name for name in self.example.py_files]
        return {"checkpoint": self.checkpoint, "py_files": files}

    def killed(self) -> None:
        """Run the first version, and kill its Spark in the middle."""
        self._old = self._planned(Version())
        example = self.example
        live = self.tester.start(
            self.script, *self.arguments, conf=dict(example.conf), **self._given
        )
        for plan in self._old.queries:
            # Of a query without a committed batch the gate would know nothing.
            live.await_batch(plan.query, 1 if plan.query == example.query else 0)
        self.tester.kill()
        in_all = (example.files - 1) // example.per_batch
        assert 1 <= self._committed() < in_all - 1, "The kill did not come in the middle."

    def _committed(self) -> int:
        commits = (self.checkpoint / self.example.query / "commits").glob("*")
        return max(int(one.name) for one in commits if one.name.isdigit())

    def gate(self, version: Version) -> GateReport:
        """Ask the change gate about a version, on the checkpoint that the kill has left."""
        assert self._old is not None
        old = self._old.queries
        places = {plan.query: str(self.checkpoint / plan.query) for plan in old}
        return gate_change(places, old, self._planned(version))

    def _planned(self, version: Version) -> ScriptPlan:
        base = Base(
            name=self.script.stem,
            script=self.script,
            conf={"spark.sql.shuffle.partitions": "1", **self.example.conf, **version.conf},
            arguments=(*self.arguments, *self._formatted(version.arguments)),
        )
        plan = self._planning.plan(base, self._text(version), Path("/not/moved"))
        assert not plan.problem
        return plan

    def _text(self, version: Version) -> str:
        return replaced(self.script.read_text(), version.changes, self.script.stem)

    def upgraded(self) -> None:
        """Let the new version go on, on the same checkpoint, until everything is read."""
        version = self.example.upgrade
        script = self.folder / self.script.name
        script.write_text(self._text(version))
        conf = {**self.example.conf, **version.conf}
        arguments = (*self.arguments, *self._formatted(version.arguments))
        self.tester.run(script, *arguments, conf=conf, **self._given)

    def rows(self, *parts: str) -> list[dict[str, Any]]:
        """Return what lies in the output."""
        return self.tester.rows(self.output.joinpath(*parts), options={"mergeSchema": "true"})

    def batch(self, query: str) -> list[dict[str, Any]]:
        """Return what the first version makes of all input in one batch."""
        return self.tester.run_batch(self.script, *self.arguments)[query]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        with closing(sqlite3.connect(f"{self.output}.db")) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(f"SELECT * FROM {name}")  # noqa: S608
            return [dict(row) for row in rows]

    def numbers_are_whole(self) -> None:
        """Check that every batch wrote its number, and none of them twice."""
        numbers = sorted(row["batch"] for row in self.table("batches"))
        assert numbers == [*range(max(numbers) + 1)]
