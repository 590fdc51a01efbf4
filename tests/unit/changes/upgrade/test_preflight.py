"""The preflight on a real home and real checkpoints; only plan mode's Spark is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_streaming.changes.upgrade import preflight as module
from airflow_streaming.changes.upgrade.preflight import Candidate, Migrate, preflight
from airflow_streaming.changes.upgrade.preflight_report import Preflight
from airflow_streaming.changes.upgrade.rollback import Ways
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding, Pattern
from airflow_streaming.gates.migration.migrations import MigratableReport
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.accepted import NO_ROLLBACK, REPLAY
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.upgrade import RollbackMethod
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan
from airflow_streaming.model.wire import decode
from airflow_streaming.spark_jobs.runner import Program
from tests.unit.changes.upgrade.upgrading import QUERY, Upgraded
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch

REWIND, NONE = RollbackMethod.REWIND, RollbackMethod.NONE
PLAN = QueryPlan(
    query=QUERY,
    spark="4.3.0",
    output_mode="append",
    sink=SinkPlan(sink="file", format="parquet", target="/out/a"),
)
TABLE = replace(PLAN, sink=SinkPlan(sink="table", target="lake.counts"))

OPTIONS = {"token": "right"}
RUNTIME = Runtime(
    name="spark-4.3",
    spark_home=Path("/spark"),
    python=Path("/spark/python"),
    java_home=None,
    spark_version="4.3.0",
)

Look = Callable[..., Preflight]


@pytest.fixture
def stream(tmp_path: Path) -> Upgraded:
    return Upgraded(tmp_path)


@pytest.fixture
def look(stream: Upgraded, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Ask with what plan mode sees of the new script; the old plans lie in the home."""

    def ask(
        *new: QueryPlan,
        ways: Ways = Ways(),  # noqa: B008 - a frozen value
        storage_options: Any = None,
        migrate: Migrate = Migrate(),  # noqa: B008 - a frozen value
        **proposed: Any,
    ) -> Preflight:
        planned = ScriptPlan(application="orders.py", spark="4.3.0", queries=new or (PLAN,))
        monkeypatch.setattr(module, "plan_script", lambda *_, **__: planned)
        candidate = Candidate(
            deployment=stream.proposed(**proposed),
            program=Program(application="orders.py", source=b""),
            runtime=RUNTIME,
        )
        return preflight(
            *(stream.home, stream.deployment, candidate, ways),
            migrate=migrate,
            storage_options=storage_options,
        )

    return ask


def record(stream: Upgraded, plan: QueryPlan, epoch: int = 1) -> None:
    stream.home.store.replace(
        Layout("orders").place(QueryPlan, epoch=epoch, query=plan.query),
        Layout("orders").bytes_of(plan),
    )


def of_same_code(stream: Upgraded) -> dict[str, str]:
    return {"application_sha256": stream.deployment.application_sha256}


REFUSED = MigratableReport(
    findings=(
        GateFinding(
            rule="aggregation.aggregates",
            severity=GateDecision.NOT_ALLOWED,
            message="An aggregate was added.",
            query=QUERY,
            remedy="Start with a new checkpoint.",
            migration=("min(x) starts anew.",),
        ),
    ),
    pattern=Pattern.BLUE_GREEN,
    migrations=(StateMigration(query=QUERY),),
)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "judge_plan", lambda *_: REFUSED)


@pytest.mark.usefixtures("refused")
def test_a_refused_change_names_the_switch_that_migrates_its_state(
    stream: Upgraded, look: Look
) -> None:
    record(stream, PLAN)
    found = look()

    assert (found.decision, found.migrations) == (GateDecision.NOT_ALLOWED, ())
    assert found.gates.findings[0].migration == ("min(x) starts anew.",)
    assert "migrate" in found.gates.findings[0].remedy


@pytest.mark.usefixtures("refused")
def test_with_the_switch_a_refusal_becomes_a_consequence(stream: Upgraded, look: Look) -> None:
    record(stream, PLAN)
    found = look(migrate=Migrate(is_wanted=True))

    assert found.decision is GateDecision.ALLOWED_WITH_CONSEQUENCE
    assert found.gates.pattern is Pattern.RESTART_IN_PLACE
    assert found.migrations == REFUSED.migrations
    assert found.rollback.way is REWIND
    (one,) = (f for f in found.gates.findings if f.rule == "aggregation.aggregates")
    assert "min(x) starts anew." in one.message
    assert decode(StateMigration, found.to_dict()["migrations"][0], "m") == found.migrations[0]


@pytest.mark.usefixtures("refused")
def test_a_migration_needs_a_rewind_whatever_a_user_accepts(stream: Upgraded, look: Look) -> None:
    record(stream, TABLE)
    found = look(TABLE, migrate=Migrate(is_wanted=True), ways=Ways(accepted={NO_ROLLBACK}))

    assert found.rollback.way is NONE
    assert found.decision is GateDecision.NOT_ALLOWED


@pytest.mark.usefixtures("refused")
def test_a_plan_of_another_change_is_refused(stream: Upgraded, look: Look) -> None:
    other = StateMigration(query=QUERY, dropped=(1,))
    with pytest.raises(SpecError, match=r"m\.toml is the migration of another change"):
        look(migrate=Migrate(is_wanted=True, given=other, name="m.toml"))


def test_what_the_running_deployment_writes_is_put_back(stream: Upgraded, look: Look) -> None:
    record(stream, PLAN)
    found = look(replace(PLAN, sink=SinkPlan(sink="file", target="/out/new")))
    assert found.rollback.way is REWIND
    assert [facts.target for facts in found.sinks] == ["/out/a"]
    assert found.queries == (QUERY,)


@pytest.mark.parametrize("own", [True, False], ids=["the script's own", "ours"])
def test_a_checkpoint_that_the_script_chose_cannot_be_rewound(
    own: bool, stream: Upgraded, look: Look
) -> None:
    place = "file:/elsewhere/counts" if own else f"file:{stream.first}/{QUERY}"
    record(stream, replace(PLAN, checkpoint=place))
    found = look()
    assert (f"/elsewhere/{QUERY}" in found.rollback.reason) is own
    assert bool(found.sinks[0].own_checkpoint) is own
    assert (found.rollback.way is REWIND) is not own


@pytest.mark.parametrize("same_code", [True, False], ids=["same code", "other code"])
def test_without_old_plans_there_is_no_way_back(
    same_code: bool, stream: Upgraded, look: Look
) -> None:
    ways = Ways(
        has_rewinder=True,
        accepted={REPLAY},
        habits={QUERY: SinkReplaySemantics.OVERWRITES},
    )
    found = look(PLAN, ways=ways, **of_same_code(stream) if same_code else {})
    assert found.rollback.way is NONE
    assert "sinks are unknown" in found.rollback.reason
    assert found.sinks == ()
    assert found.decision is GateDecision.NOT_ALLOWED


def test_the_plans_of_an_earlier_deployment_are_not_those_of_this_one(
    stream: Upgraded, look: Look
) -> None:
    record(stream, PLAN)
    stream.home.create_deployment(make_deployment(2, checkpoint=stream.first), SCRIPT)
    stream.home.create_epoch(make_epoch(2, deployment=2))
    assert look().rollback.way is NONE
    record(stream, replace(PLAN, sink=SinkPlan(sink="file", target="/out/b")), epoch=2)
    assert [facts.target for facts in look().sinks] == ["/out/b"]


@pytest.mark.parametrize("same_code", [True, False], ids=["same code", "other code"])
def test_a_query_without_a_plan_leaves_no_way_back_for_any(
    same_code: bool, stream: Upgraded, look: Look
) -> None:
    record(stream, PLAN)
    run_batches(Path(stream.first) / "late", 3, "1a-0-0-0-1")
    late = replace(PLAN, query="late", sink=SinkPlan(sink="file", target="/out/b"))
    edits = of_same_code(stream) if same_code else {}
    found = look(PLAN, late, **edits)
    assert found.rollback.way is NONE
    assert "what query 'late' writes" in found.rollback.reason
    record(stream, late)
    assert look(PLAN, late, **edits).rollback.way is REWIND


@pytest.mark.parametrize(
    ("conf", "way"),
    [
        ({}, RollbackMethod.RESUME),
        ({"spark.sql.streaming.offsetLog.formatVersion": "2"}, NONE),
    ],
    ids=["as it is", "a format of the new Spark"],
)
def test_a_format_that_the_old_spark_cannot_read_is_no_way_to_resume(
    conf: dict[str, str], way: RollbackMethod, stream: Upgraded, look: Look
) -> None:
    made = make_deployment(2, checkpoint=stream.first, spark_version="4.1.4")
    stream.home.create_deployment(made, SCRIPT)
    stream.home.create_epoch(make_epoch(2, deployment=2))
    record(stream, TABLE, epoch=2)
    found = look(TABLE, **of_same_code(stream), spark_version="4.1.9", conf=conf)
    assert found.rollback.way is way
    assert ("offsetLog.formatVersion=2" in found.rollback.reason) is bool(conf)


def test_every_checkpoint_is_opened_with_the_options_of_its_store(
    stream: Upgraded, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def opened(uri: str, _: str, options: Any, filesystem: Any) -> tuple[Any, str]:
        asked.append((options, filesystem))
        return LocalFileSystem(), uri.replace("s3://bucket/one", stream.first)

    monkeypatch.setattr("airflow_streaming.storage.folders.open_filesystem", opened)
    made = make_deployment(2, checkpoint="s3://bucket/one", spark_version="4.1.4")
    stream.home.create_deployment(made, SCRIPT)
    stream.home.create_epoch(make_epoch(2, deployment=2))
    record(stream, replace(TABLE, checkpoint=f"s3a://bucket/one/{QUERY}"), epoch=2)

    look(TABLE, storage_options=OPTIONS, spark_version="4.1.9")

    # The two gates forth, and the two back; each after a look which checkpoints there are.
    assert len(asked) > 6
    assert {(options["token"], filesystem) for options, filesystem in asked} == {("right", None)}


def test_a_habit_may_be_said_of_a_query_that_only_the_new_version_starts(
    stream: Upgraded, look: Look
) -> None:
    record(stream, PLAN)
    added = replace(TABLE, query="added")
    said = Ways(habits={"added": SinkReplaySemantics.OVERWRITES})
    assert look(PLAN, added, ways=said).rollback.way is REWIND
    with pytest.raises(SpecError, match="query 'added', which there is not"):
        look(PLAN, ways=said)
