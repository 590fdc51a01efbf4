"""Examples are killed in the middle, and continue as another version that the change gate accepts."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.testing import StreamTester, compare_rows
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines import test_fraud, test_iot, test_small, test_upsert
from tests.integration.pipelines.conftest import Feeding
from tests.system.edits.edit import Base, replaced
from tests.system.edits.trial import PLAN_PROGRAM, Spark

Changes = tuple[tuple[str, str], ...]

ONE_FILE: Final = ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2')
TWO_FILES: Final = ('"maxFilesPerTrigger", 2', '"maxFilesPerTrigger", 3')
TABLE: Final = ("--input", "{run}/in", "--database", "{run}/out.db")
ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG: Final = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}

ACCEPTED: Final = (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)

pytestmark = [
    pytest.mark.usefixtures("has_pandas"),
    pytest.mark.skipif(
        not os.environ.get("AIRFLOW_STREAMING_TEST_MORE"),
        reason="A Spark is killed and started for each example; set AIRFLOW_STREAMING_TEST_MORE.",
    ),
]


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
    :param places: Arguments of input and output; ``{run}`` is the folder of a run.
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
    ) -> None:
        self.example, self.tester, self._planning = example, tester, planning
        self.script, self.folder = dags / example.script, folder
        self.checkpoint, self.output = folder / "checkpoint", folder / "out"
        self._old: ScriptPlan | None = None

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the first version."""
        return self._formatted((*self.example.places, *self.example.arguments))

    def _formatted(self, arguments: tuple[str, ...]) -> list[str]:
        return [text.format(run=self.folder) for text in arguments]

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


def of_iot(run: Run) -> None:
    for name, expected in {
        "counts": test_iot.expected_counts(),
        "alerts": test_iot.expected_alerts(),
    }.items():
        assert expected
        assert not compare_rows(run.rows(name), expected, [*expected[0]])


def of_fraud(run: Run) -> None:
    expected = test_fraud.frauds(test_fraud.payments(range(run.example.files)))
    assert len(expected) > 5
    assert not compare_rows(run.table("alerts"), expected, test_fraud.COLUMNS)
    run.numbers_are_whole()


def of_upsert(run: Run) -> None:
    found = [{**row, "closed": bool(row["closed"])} for row in run.table("accounts")]
    assert not compare_rows(found, test_upsert.newest(range(run.example.files)))
    run.numbers_are_whole()


def of_hours(run: Run) -> None:
    expected = test_small.hours(run.example.files)
    assert expected
    assert not compare_rows(run.rows(), expected)


def of_scoring(run: Run) -> None:
    found = run.rows()
    sent = [row for n in range(run.example.files) for row in parsed(FEEDS["sensors"].lines(n))]
    assert not compare_rows(found, [{"id": row["id"]} for row in sent], ("id",))
    assert {row["model"] for row in found} == {"first", "second"}
    first = {(row["id"], row["score"]) for row in run.batch("scores")}
    assert {(r["id"], r["score"]) for r in found if r["model"] == "first"} <= first


IOT: Final = "iot/jobs/iot_sensors.py"
EXAMPLES: Final[Mapping[str, Example]] = {
    "iot": Example(
        script=IOT,
        feed="sensors",
        query="counts",
        files=test_iot.FILES,
        upgrade=Version(
            changes=(
                (
                    '"device", "readings", "hottest")',
                    '"device", "readings", "hottest", (F.col("hottest") / 1000).alias("celsius"))',
                ),
            )
        ),
        refused=(
            Version(changes=(('window = F.window("ts", "10', 'window = F.window("ts", "20'),)),
        ),
        check=of_iot,
    ),
    "efficiency": Example(
        script=IOT,
        feed="sensors",
        query="counts",
        files=test_iot.FILES,
        conf=ROCKSDB,
        upgrade=Version(conf=CHANGELOG),
        check=of_iot,
    ),
    "fraud": Example(
        script="fraud/jobs/fraud_alerts.py",
        feed="payments",
        query="alerts",
        files=test_fraud.FILES,
        upgrade=Version(changes=(ONE_FILE,)),
        check=of_fraud,
        py_files=("fraud_rule.py",),
        places=TABLE,
    ),
    "scoring": Example(
        script="scoring/jobs/score_readings.py",
        feed="sensors",
        query="scores",
        files=10,
        per_batch=2,
        arguments=("--model", "{run}/models/first", "--trigger-seconds", "0"),
        upgrade=Version(arguments=("--model", "{run}/models/second")),
        check=of_scoring,
    ),
    "upsert": Example(
        script="upsert/jobs/account_balances.py",
        feed="accounts",
        query="balances",
        files=8,
        upgrade=Version(changes=(ONE_FILE,)),
        check=of_upsert,
        places=TABLE,
    ),
    "triggers": Example(
        script="triggers/jobs/clicks_per_hour.py",
        feed="clicks",
        query="hours",
        files=12,
        per_batch=2,
        arguments=(),
        upgrade=Version(changes=(TWO_FILES,)),
        check=of_hours,
    ),
}


@pytest.fixture(scope="module")
def planning(spark_4_3: Path, dags: Path) -> Iterator[Spark]:
    """One Spark that makes the plans of all versions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(dags / "fraud" / "jobs"))
        with Spark(spark_4_3, PLAN_PROGRAM) as spark:
            yield spark


@pytest.fixture
def run(
    example: Example,
    stream_tester: StreamTester,
    planning: Spark,
    feed: Feeding,
    dags: Path,
    tmp_path: Path,
) -> Run:
    made = Run(example, stream_tester, planning, dags, tmp_path)
    if "{run}/models/first" in example.arguments:
        feed("sensors", tmp_path / "past", range(3))
        for name, limit in (("first", "66000"), ("second", "61000")):
            given = ("--model", tmp_path / "models" / name, "--limit", limit)
            trainer = made.script.with_name("train_model.py")
            stream_tester.run(
                trainer, "--input", tmp_path / "past", *given, checkpoint=tmp_path / "unused"
            )
    return made


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=[*EXAMPLES])
def test_a_killed_example_goes_on_as_another_version_and_equals_a_batch(
    run: Run, feed: Feeding
) -> None:
    files, folder = run.example.files, run.folder / "in"
    feed(run.example.feed, folder, range(files - 1))
    run.killed()
    feed(run.example.feed, folder, [files - 1])
    for version in run.example.refused:
        assert run.gate(version).decision is GateDecision.NOT_ALLOWED
    accepted = run.gate(run.example.upgrade)
    assert accepted.decision in ACCEPTED, accepted.findings
    run.upgraded()

    run.example.check(run)


def test_words_of_a_socketless_console_are_counted_anew_after_a_kill(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script = dags / "first_stream" / "jobs" / "word_count.py"
    given = ("--input", tmp_path / "in", "--sink", "memory")
    feed("mentions", tmp_path / "in", range(2))
    live = stream_tester.start(script, *given, checkpoint=tmp_path / "checkpoint")
    live.await_batch("words", 0)
    stream_tester.kill()

    feed("mentions", tmp_path / "in", [2])
    run = stream_tester.run(script, *given, checkpoint=tmp_path / "checkpoint")
    # Nothing was kept, and files can be read again: all of them are in the one batch that there is.
    assert run["words"].batches == [0]
    assert not compare_rows(run["words"].rows or [], test_small.words(3))
