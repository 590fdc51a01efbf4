"""At least one example of every record."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow_streaming.checkpoints.backup.records import (
    Backup,
    BundleUse,
    Level,
    Origin,
    QueryBackup,
    RestoreMarker,
    Verification,
)
from airflow_streaming.checkpoints.restore.sink_log import SinkRewound
from airflow_streaming.checkpoints.vault.deletion import BackupRemoval
from airflow_streaming.checkpoints.vault.holds import ActiveHolders, GcCandidate, GcDeleting, Hold
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rehearsal import Pace, Rehearsed, RehearsedQuery
from airflow_streaming.gates.rehearsal_compare import Answer, Compared, ComparedQuery
from airflow_streaming.model.health_rules import HealthRule, HealthRules, Severity
from airflow_streaming.model.jobs.comparison import (
    Bound,
    ColumnDiffers,
    CompareOrder,
    CompareReport,
    CompareResult,
    ComparisonRequest,
    GroupDiffers,
    RowsDiffer,
    SideFound,
)
from airflow_streaming.model.jobs.drill import DrilledQuery, DrillEvent, DrillEventKind, DrillOrder
from airflow_streaming.model.jobs.pointing import CatalogAnswer, CatalogOrder, Entry, Mark
from airflow_streaming.model.jobs.rehearsal import (
    Bounds,
    Ending,
    RehearsalEvent,
    RehearsalOrder,
    Seen,
)
from airflow_streaming.model.jobs.shared import JobCall, JobEnd, SharedOrder
from airflow_streaming.model.jobs.upkeep import (
    ClassLoadingOrder,
    RepartitionAnswer,
    RepartitionOrder,
)
from airflow_streaming.model.metrics import Metric
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.products.freshness import Span, Timeline
from airflow_streaming.model.products.windows import (
    AnnouncedWindow,
    ClaimOutcome,
    SeriesState,
    WindowClaim,
    WindowClaimEnd,
    WindowRequest,
)
from airflow_streaming.model.records.alert import AlertSent, AlertTry
from airflow_streaming.model.records.autoscale import SizeChange, SizeCode
from airflow_streaming.model.records.control import (
    Change,
    ChangeEnd,
    ChangeKind,
    ChangeOutcome,
    Desired,
    DesiredState,
    Event,
    EventKind,
    Removal,
    RemovalEnd,
    RemovalKind,
)
from airflow_streaming.model.records.cutover import (
    CheckResult,
    CompareTerms,
    CutoverTerms,
    LiveRecord,
    Pair,
    Result,
    StartWay,
    SwitchMethod,
)
from airflow_streaming.model.records.cutover_table import (
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.deployment import Deviation, Override
from airflow_streaming.model.records.epoch import (
    Barrier,
    KeptLog,
    OrderAct,
    QueryClaim,
    StandbyAnswer,
    StandbyOrder,
)
from airflow_streaming.model.records.owner import Owner
from airflow_streaming.model.records.policy import Blackout, RestartPolicy
from airflow_streaming.model.records.repair import (
    RepairOutcome,
    SinkRepair,
    SinkRepairEnd,
    SinkRepairUndo,
    SinkRepairUndoEnd,
)
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.records.upgrade import (
    RollbackMethod,
    RollbackPlan,
    RunReport,
    SinkFacts,
    SinkReplaySemantics,
    SoakTerms,
    UpgradeTerms,
)
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeEvent, UpgradeTransition
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    PlanOrder,
    QueryPlan,
    ScriptPlan,
    SinkPlan,
    SourcePlan,
    WatermarkPlan,
)
from airflow_streaming.model.wire import Record
from airflow_streaming.storage.known_stores import KnownStore, StoreMark
from airflow_streaming.storage.probe import StoreProbe
from tests.trees import a_step, trees
from tests.unit.supervision.builders import (
    EPOCH,
    NOW,
    a_circuit,
    a_death,
    a_deployment,
    a_give_up,
    a_launch,
    a_query,
    a_restart,
    a_status,
    a_stop,
    an_alert,
    an_epoch,
    an_exit,
)

QUERY_PLAN: Final = QueryPlan(
    query="revenue",
    spark="4.3.0",
    output_mode="append",
    processing_trigger="10 seconds",
    checkpoint="/ck/revenue",
    sink=SinkPlan(sink="file", format="parquet", target="/out", partitioned_by=("day",)),
    sources=(SourcePlan(source="file", format="json", paths=("/in",), options={"a": "1"}),),
    operators=(
        OperatorPlan(
            sort=OperatorKind.AGGREGATE,
            keys=(Column(name="k", type="string"),),
            key_expressions=trees("upper(k)"),
            values=trees("sum(v)"),
            value_types=("bigint",),
            output_names=(("total",),),
            window_us=(1, 1, 0),
        ),
    ),
    watermarks=(WatermarkPlan(column="ts", delay_ms=90_000),),
    steps=(a_step("filter", "(v > 3)", 1),),
    conf={"spark.sql.shuffle.partitions": "3"},
    notes=("Something could not be read.",),
)

EXAMPLES: Final[tuple[Record, ...]] = (
    Removal(
        number=1,
        stream="orders",
        what=RemovalKind.CHECKPOINT,
        name="restored-000002",
        reason="no deployment has used it within the period",
        by="dag run scheduled__1",
        at=NOW,
    ),
    SinkRepair(
        number=1,
        stream="orders",
        epoch=18,
        deployment=3,
        query="counts",
        checkpoint="/ck/counts",
        output="/out",
        batch=7,
        by="dag run scheduled__1",
        at=NOW,
        planned_at=NOW,
    ),
    SinkRepairEnd(
        number=1, outcome=RepairOutcome.DONE, files=2, size=84, by="dag run scheduled__1", at=NOW
    ),
    SinkRepairUndo(number=1, by="kim", reason="Readers have the old files.", at=NOW),
    SinkRepairUndoEnd(number=1, outcome=RepairOutcome.DONE, by="kim", at=NOW),
    WindowClaim(
        series="3600s",
        number=7,
        windows=(AnnouncedWindow(start=NOW, revision=2),),
        state=SeriesState(
            since=NOW,
            until=NOW + timedelta(hours=1),
            revisions={"2026-11-21T12:00:00": 2},
            contents={"2026-11-21T12:00:00": "420"},
            requests=1,
            requested_until=NOW,
        ),
        base=6,
        receipts="orders.3600s.windows.receipts",
        receipts_uri="stream+file:/home/orders?windows=3600s&receipts=1",
        dag_id="orders_windows",
        run_id="scheduled__1",
        task_id="windows",
        map_index=-1,
        ti_id="01a21f31",
        by="orders_windows.windows run scheduled__1 try 1",
        at=NOW,
    ),
    WindowClaimEnd(series="3600s", number=7, outcome=ClaimOutcome.ANNOUNCED, by="run 8", at=NOW),
    WindowRequest(
        series="3600s",
        number=2,
        start=NOW,
        end=NOW + timedelta(hours=3),
        by="kim",
        reason="A late file.",
        at=NOW,
    ),
    Timeline(
        number=4,
        complete_within=timedelta(minutes=15),
        query="revenue",
        since=NOW,
        until=NOW + timedelta(hours=3),
        complete_until=NOW + timedelta(hours=2),
        late=(Span(begin=NOW, end=NOW + timedelta(hours=1)),),
    ),
    StoreMark(id="ab" * 16),
    KnownStore(uri="s3://lake/backups", id="ab" * 16, since=NOW),
    SharedOrder(calls="/tmp/s/calls", held="/tmp/s/held", scratch="/tmp/s"),
    JobCall(entry="plan.py", order="/tmp/s/order.json", log="/tmp/s/log", variable="PLAN_MODE"),
    JobEnd(code=0, leftovers=("metastore_db",)),
    RemovalEnd(number=1, files=420, size=1_048_576, by="dag run scheduled__1", at=NOW),
    CheckResult(
        change=4,
        step=5,
        name="compare.orders",
        result=Result.FAIL,
        reason="Bucket 12:00, key east: 7 rows, not 8.",
        at=NOW,
        by="kim",
        figures={"rows": "7"},
    ),
    Change(
        number=2,
        stream="orders.green",
        what=ChangeKind.CUTOVER,
        replaced=0,
        deployment=0,
        checkpoint="",
        by="kim",
        reason="Another aggregation.",
        at=NOW,
        leader="orders/4",
    ),
    an_alert(number=1, severity=Severity.RESTART, facts={"figure": "0.62"}),
    SinkRewound(
        stream="orders",
        query="revenue",
        change=2,
        backup="20261103-120000-000000-1ae5e81a",
        batch=41,
        newest=44,
        files=6,
        size=81920,
    ),
    AlertTry(number=1, attempt=1, at=NOW, by="kim"),
    AlertSent(number=1, outcome="sent", at=NOW),
    Backup(
        id="20261103-120000-000000-ab12cd34",
        stream="orders",
        begun_at=NOW,
        finished_at=NOW,
        origin=Origin.BEFORE_UPGRADE,
        by="kim",
        queries=(
            QueryBackup(
                folder="counts",
                checkpoint="/ck/counts",
                query_id="q-1",
                batch=17,
                planned=18,
                offsets=('{"logOffset": 5}',),
            ),
        ),
        bundles=(BundleUse(index="ab" * 32, index_size=100, chosen="0-4,7"),),
        files=6,
        size=100,
        facts={"state": "hdfs"},
    ),
    Verification(
        backup="20261103-120000-000000-ab12cd34",
        level=Level.FULL,
        verified_at=NOW,
        by="kim",
        problems=("A pack is missing.",),
        facts={"files": "6"},
        manifest="ef" * 32,
    ),
    GcCandidate(id="d" * 32, at=NOW, by="kim", objects=(f"orders/files/{'0' * 64}",)),
    ActiveHolders(doomed="d" * 32, beats={"1" * 32: 4, "2" * 32: 0}),
    GcDeleting(doomed="d" * 32, at=NOW, by="kim"),
    a_circuit(),
    a_death(),
    a_deployment(),
    a_deployment(conf={}, env=(), jars=(), color="green"),
    a_give_up(),
    a_launch(),
    a_restart(),
    a_status(),
    a_status(queries=(), first_progress_at=None, application_id="local-1", ui_url="http://h:4040"),
    a_status(queries=(a_query(), a_query(name="raw", progress=None, error="it broke"))),
    a_stop(),
    an_epoch(),
    an_exit(),
    a_stop(verdict=Severity.RESTART, wish=2),
    Supervision(
        number=1,
        by="kim",
        at=NOW,
        health=HealthRules(
            rules=(HealthRule(name="late", metric=Metric.WATERMARK_DELAY_SECONDS, bound=60.0),)
        ),
        restart=RestartPolicy(blackouts=(Blackout(start="22:00", end="06:00", days=(5,)),)),
    ),
    an_exit(conditions=("STREAM_FAILED", "NO_SPACE"), query="revenue", batch_id=41),
    an_exit(
        failure_kind=FailureKind.USER_CODE,
        signature="0a1b",
        offsets=('{"orders":{"0":12}}', "-"),
    ),
    SizeChange(
        number=1,
        epoch=3,
        code=SizeCode.UP,
        executors=6,
        before=4,
        configured=4,
        reason="Query 'revenue' works 95% of its time.",
        by="kim",
        at=NOW,
        figures={"share": 0.95, "backlog": 1200.0},
    ),
    ClassLoadingOrder(folder="/scratch/streams", seconds=600.0),
    RepartitionOrder(
        checkpoints=("file:///data/c/revenue", "file:///data/c/raw"),
        partitions=8,
        unbegun={"file:///data/c/raw": 41},
        answer="/scratch/answer.json",
        seconds=1800.0,
    ),
    RepartitionAnswer(condition="STATE_REPARTITION_INVALID_CHECKPOINT", failed="/c: no."),
    Desired(number=1, state=DesiredState.STOPPED, by="kim", reason="Schönes Wetter.", at=NOW),
    PlanOrder(
        result="/scratch/plan.json",
        seconds=300.0,
        application="/app/job.py",
        source="/scratch/script.py",
        arguments=("--in", "/in"),
    ),
    QUERY_PLAN,
    ScriptPlan(application="/app/job.py", spark="4.3.0", queries=(QUERY_PLAN,), problem="It hung."),
    DrillOrder(
        events="/scratch/events.jsonl",
        seconds=600.0,
        queries=(
            DrilledQuery(
                folder="counts",
                checkpoint="/ck/counts",
                copy="/scratch/counts",
                batch=7,
                reads_state=True,
                runs=7,
                cut=("commits/7", "state/0/0/8.delta"),
            ),
        ),
        application="/app/job.py",
        source="/scratch/script.py",
        arguments=("--in", "/in"),
    ),
    DrillEvent(told=DrillEventKind.STATE, query="counts", subject="operator 0 (dedupe)", rows=3),
    DrillEvent(
        told=DrillEventKind.BATCH_FAILED, query="counts", text="It broke.", remedy="Mend it."
    ),
    RehearsalOrder(
        events="/scratch/events.jsonl",
        seconds=690.0,
        bounds=Bounds(batches=3),
        queries=(DrilledQuery(folder="counts", checkpoint="/ck/counts", copy="/c", batch=17),),
        application="/app/job.py",
        source="/scratch/script.py",
        scratch="/scratch",
        held="/scratch/held",
        arguments=("--in", "/in"),
    ),
    RehearsalEvent(
        seen=Seen.BATCH,
        query="counts",
        batch=17,
        rows=3,
        columns=(Column(name="k", type="string"),),
        sample=({"k": "a"},),
        ending=Ending.CAUGHT_UP,
    ),
    Rehearsed(
        application="/app/job.py",
        spark="4.3.0",
        subject="backup b-1 of stream 'orders'",
        seconds=12.5,
        queries=(
            RehearsedQuery(
                query="counts",
                ending=Ending.FAILED,
                pinned=17,
                pace=Pace(batches=2, input_rows=5.0, rows_per_second=7.5, duration_ms=300.0),
                observed={"seen.rows": 5.0},
            ),
        ),
        findings=(
            GateFinding(
                rule="rehearsal.query_failed",
                severity=GateDecision.NOT_ALLOWED,
                message="It broke.",
                query="counts",
            ),
        ),
    ),
    Compared(
        subject="a copy of /ck/counts",
        queries=(
            ComparedQuery(
                query="counts",
                answer=Answer.SETTLES,
                reason="The state ended up as that of a run from scratch.",
                batches=(17, 18),
                other_than_old=(17,),
                other_than_fresh=(17,),
                from_scratch=True,
                not_seen=("The sink was not run.",),
            ),
        ),
        seconds=42.5,
    ),
    Event(event=EventKind.LAUNCHED, at=NOW, by="kim", message="Up.", epoch=3, facts={"pid": "7"}),
    Event(event=EventKind.DESIRED, at=NOW, by="kim", message="\N{SNOWMAN} in\ntwo lines"),
    QueryClaim(query="revenue", query_id="q-1", checkpoint="/c/revenue", epoch=EPOCH),
    Change(
        number=1,
        stream="orders",
        what=ChangeKind.RESTORE,
        replaced=3,
        deployment=4,
        checkpoint="/data/streams/orders/checkpoints/restored-000001",
        by="kim",
        reason="Bad release.",
        at=NOW,
        backup="20261121-120000-000000-0a1b2c3d",
        queries={"revenue": "revenue"},
    ),
    ChangeEnd(number=1, outcome=ChangeOutcome.DONE, by="kim", reason="Bad release.", at=NOW),
    UpgradeTransition(
        change=2,
        number=2,
        before=Stage.BACKED_UP,
        event=UpgradeEvent.OLD_STOPPED,
        after=Stage.STOPPED,
        at=NOW,
        by="kim",
        reason="The old driver is gone.",
        facts={"boundary": "b-2", "fence": "18"},
    ),
    UpgradeTerms(
        change=2,
        proposed=a_deployment(number=4),
        rollback=RollbackPlan(way=RollbackMethod.REWIND, reason="A file sink.", replay="Batch 7."),
        soak=SoakTerms(batches=5, queries=("revenue",)),
        keeps_by_itself=False,
        sinks=(
            SinkFacts(
                query="revenue", sink="file", habit=SinkReplaySemantics.FILE_LOG, target="/o"
            ),
        ),
        key="run-1",
    ),
    CutoverTerms(
        change=3,
        way=SwitchMethod.HANDOVER,
        pairs=(
            Pair(
                stream="orders",
                blue="orders",
                green="orders.green",
                blue_deployment=3,
                shadow=a_deployment(number=4),
                live=a_deployment(number=5),
                start=StartWay.FRESH,
                queries=("revenue",),
                stateful=("revenue",),
                sinks=(
                    SinkFacts(query="revenue", sink="file", habit=SinkReplaySemantics.FILE_LOG),
                ),
            ),
        ),
        compare=(CompareTerms(stream="orders", keys=("country",), sums=("revenue",)),),
        deadlines={"draining": timedelta(seconds=30)},
        pointers=("view",),
        checks=("has_rows",),
        key="run-1",
    ),
    CompareOrder(
        asked=(
            ComparisonRequest(
                terms=CompareTerms(stream="orders", time="hour", keys=("store",)),
                blue="/data/output/blue",
                green="/data/output/green",
                bound=Bound(
                    blue=NOW, green=NOW, since=NOW, late_rows=3, in_flight=timedelta(minutes=1)
                ),
            ),
        ),
        reports="/scratch/reports.jsonl",
        seconds=60.0,
        held="/scratch/held",
        scratch="/scratch",
    ),
    CompareReport(
        stream="orders",
        result=CompareResult.DIFFERS,
        reason="1 of 48 buckets and keys differ.",
        at=NOW,
        blue=SideFound(uri="/data/output/blue", rows=48, first=NOW, last=NOW, compared=48),
        green=SideFound(uri="/data/output/green", exists=False),
        common_from=NOW,
        common_until=NOW,
        columns=(ColumnDiffers(column="amount", blue="double", green=""),),
        groups=48,
        differing=1,
        differences=(
            GroupDiffers(
                bucket="2026-11-21T12:00:00+00:00",
                key={"store": "s2"},
                what="sum of amount",
                blue="6.50",
                green="6.00",
            ),
        ),
        full=RowsDiffer(blue=1, sample=('blue: {"store":"s2"}',)),
        notes=("3 rows were dropped as late by either driver.",),
        seconds=2.5,
        spark="4.3.0",
    ),
    CutoverTransition(
        change=3,
        number=2,
        before=CutoverState.STARTING,
        event=CutoverEvent.GREEN_STARTED,
        after=CutoverState.CATCHING_UP,
        reason="Epoch 4 of orders.green was started.",
        at=NOW,
        by="kim",
        facts={"epoch": "4"},
    ),
    LiveRecord(
        number=1,
        stream="orders",
        lane="orders.green",
        deployment=5,
        output="/data/out",
        leader="orders",
        change=3,
        step=9,
        event=CutoverEvent.SWITCHED,
        at=NOW,
        by="kim",
    ),
    Mark(stream="orders", lane="orders", deployment=5, output="/data/out", number=2, undone=True),
    CatalogOrder(
        entry=Entry.VIEW,
        name="`lake`.`orders`",
        wanted=Mark(stream="orders", lane="orders", deployment=5, output="/data/out", number=2),
        bodies={"/data/out": "SELECT 1"},
        answer="/tmp/answer.json",
        seconds=60.0,
    ),
    CatalogAnswer(refused="It is not ours.", failed="It could not be moved."),
    StandbyOrder(epoch=4, number=1, act=OrderAct.ABSORB, at=NOW, by="kim", absorb={"revenue": 8}),
    StandbyAnswer(epoch=4, number=1, at=NOW, committed={"revenue": 8}),
    Barrier(epoch=4, queries=("revenue",), at=NOW),
    KeptLog(epoch=4, place="node-3:/logs/4.log", text="Killed\n", kept_at=NOW, size=9),
    RestoreMarker(
        source="20261121-120000-000000-0a1b2c3d",
        folders=("revenue",),
        begun_at=NOW,
        token="0f3a",
    ),
    Hold(id="0f3a", stream="orders", what="backup", backup="b1", by="kim", begun_at=NOW, beats=2),
    BackupRemoval(backup="b1", by="kim", reason="A test.", at=NOW, manifest="0f3a"),
    StoreProbe(creators=8, rounds=3, at=NOW),
    Owner(
        number=2,
        stream="orders",
        dag_id="orders_v2",
        by="kim",
        reason="the dag was renamed",
        at=NOW,
        shared_with=("orders_upgrade",),
    ),
    RunReport(
        number=1,
        key="orders_upgrade manual__1",
        task="upgrade.preflight",
        xcom="report",
        digest="0f3a" * 16,
        by="dag run 1",
        at=NOW,
    ),
    Deviation(
        number=2,
        deployment=5,
        values=(Override(what="runtime", value="spark-4.3", dag="spark-4.2"),),
        by="kim",
        at=NOW,
    ),
)
