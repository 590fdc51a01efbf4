"""A real Iceberg table on Spark 3.5: written, merged, read as a stream, and judged by the gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from demo.figures import iceberg_rows
from demo.pipelines import ICEBERG_JAR
from tests.integration.pipelines.conftest import Feeding
from tests.integration.pipelines.test_upsert import newest
from tests.quick_java import kit_environment
from tests.system.edits.edit import Base
from tests.system.edits.trial import PLAN_PROGRAM, Spark

FILES: Final = 6
READER: Final = Path(__file__).with_name("reading.py")
EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@pytest.fixture(scope="module")
def conf(spark_3_5: Path) -> Mapping[str, str]:
    """What Spark 3.5 needs to know Iceberg."""
    if not ICEBERG_JAR.exists():
        pytest.skip("There is no .runtimes/iceberg with Iceberg's jar; 'make test' fetches it.")
    return {"spark.jars": str(ICEBERG_JAR), "spark.sql.extensions": EXTENSIONS}


@pytest.fixture(scope="module")
def tester(spark_3_5: Path, conf: Mapping[str, str]) -> Iterator[StreamTester]:
    environment = kit_environment(spark_3_5)
    with StreamTester(spark_3_5 / "bin" / "python", conf=conf, environment=environment) as made:
        yield made


@pytest.fixture(scope="module")
def planning(spark_3_5: Path, conf: Mapping[str, str]) -> Iterator[Spark]:
    """A Spark that makes the plans."""
    given = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", " ".join([*given, "pyspark-shell"]))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        with Spark(spark_3_5, PLAN_PROGRAM) as spark:
            yield spark


class Lake:
    """The example in a folder."""

    def __init__(self, folder: Path, script: Path, tester: StreamTester, planning: Spark) -> None:
        self.script, self.checkpoint = script, folder / "checkpoint"
        self.warehouse = folder / "lake"
        self.arguments = ("--input", str(folder / "in"), "--warehouse", str(self.warehouse))
        self._tester, self._planning = tester, planning

    def run(self) -> None:
        self._tester.run(self.script, *self.arguments, checkpoint=self.checkpoint)

    def killed(self) -> None:
        """Kill Spark while batches run."""
        fast = (*self.arguments, "--trigger-seconds", "0")
        live = self._tester.start(self.script, *fast, checkpoint=self.checkpoint)
        live.await_batch("changes", 1)
        self._tester.kill()

    def table(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._tester.call(
            READER, "iceberg_table", str(self.warehouse), f"lake.bank.{name}"
        )
        return found

    def plan(self, *more: str, changes: tuple[tuple[str, str], ...] = ()) -> ScriptPlan:
        base = Base(
            name="lake",
            script=self.script,
            changes=changes,
            conf={"spark.sql.shuffle.partitions": "1"},
            arguments=(*self.arguments, *more),
        )
        plan = self._planning.plan(base, base.source, Path("/not/moved"))
        assert not plan.problem
        return plan

    def gate(self, old: ScriptPlan, new: ScriptPlan) -> GateReport:
        places = {plan.query: str(self.checkpoint / plan.query) for plan in old.queries}
        return gate_change(places, old.queries, new)


@pytest.mark.nightly("Kills of a Spark 3.5 with Iceberg.")
def test_a_lake_of_iceberg_tables_is_whole_after_kills_and_what_is_unknown_is_not_allowed(
    tester: StreamTester, planning: Spark, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    lake = Lake(tmp_path, dags / "lake" / "jobs" / "lake_accounts.py", tester, planning)
    feed("accounts", tmp_path / "in", range(FILES - 1))
    lake.killed()
    lake.run()
    for query in ("changes", "accounts", "closures"):
        undo_last_commit(lake.checkpoint, query)
    feed("accounts", tmp_path / "in", [FILES - 1])
    lake.run()
    # The stream on the first table reads what was committed when it looked; now all of it is.
    lake.run()

    sent = [row for n in range(FILES) for row in parsed(FEEDS["accounts"].lines(n))]
    assert not compare_rows(lake.table("changes"), sent, ("id", "account", "version", "cents"))
    columns = ("account", "version", "cents", "closed")
    assert not compare_rows(lake.table("accounts"), newest(range(FILES)), columns)
    closed = [{"account": row["account"]} for row in sent if row["closed"]]
    assert closed
    assert not compare_rows(lake.table("closures"), closed, ("account",))
    assert iceberg_rows(lake.warehouse / "bank")["changes"] == len(sent)

    for query, kind in {"changes": SourceType.FILE, "closures": SourceType.CUSTOM}.items():
        found = inspect(str(lake.checkpoint / query))
        assert found.is_sound, found.problems
        assert [source.source for source in found.sources] == [kind]
    old = lake.plan()
    assert lake.gate(old, lake.plan()).decision is GateDecision.ALLOWED
    refused = (GateDecision.UNKNOWN, GateDecision.NOT_ALLOWED)
    for new in (
        lake.plan("--from-timestamp", "1767225600000"),
        lake.plan(changes=(('"lake.bank.changes").where("closed")', '"lake.bank.closures")'),)),
        lake.plan(changes=(('"lake.bank.closures"\n    )', '"lake.bank.changes"\n    )'),)),
    ):
        assert lake.gate(old, new).decision in refused
