"""
Homes with a day of plausible history, written through the provider's own writers.

Run as a program: ``python -m tests.page.homes FOLDER --streams 200``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_streaming.checkpoints.backup.stream_backup import (
    BackupRequest,
    back_up_stream,
    default_store,
)
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.driver.monitoring.history import History
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.choices import Level, Origin, StartWay
from airflow_streaming.model.health_rules import HealthRules, Severity
from airflow_streaming.model.host import this_host
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.records.control import DesiredState, Event, EventKind
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Exit, Launch, LaunchCause, Outcome
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.records.restart_decision import RestartAction, RestartDecision
from airflow_streaming.model.records.supervision import Supervision
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.status import CheckpointOrigin, DriverState, QueryStatus, Status
from airflow_streaming.model.storage import LocalStore
from tests.page.batches import Batches
from tests.page.open_changes import write_cutover

SCRIPT = b"print('a stream')\n"
KINDS = (
    "healthy",
    "behind",
    "restarted",
    "gave_up",
    "off",
    "idle",
    "cutover",
    "hung",
    "restarting",
)


@dataclass
class Making:
    """A stream that is being made."""

    home: StreamHome
    kind: str
    now: datetime
    seed: random.Random
    hours: float
    batch: float = 10.0
    base: float = 0.0

    def write(self) -> None:
        self.base = self.seed.choice([300.0, 1_200.0, 5_000.0, 42_000.0])
        begin = self.now - timedelta(hours=self.hours)
        self.deploy(1, begin - timedelta(days=12), "4.1.4")
        if self.kind not in ("off", "idle"):
            self.deploy(2, begin + timedelta(hours=self.hours * 0.35), "4.3.0")
        self.home.claim_ownership(
            Actor(dag_id=self.home.name, file="streams.py", bundle="dags-folder"),
            by="dag",
            now=begin,
        )
        rules = HealthRules.recommended(
            watermark_sla=timedelta(minutes=10), backlog_records=200_000
        )
        self.home.supervise(
            Supervision(number=0, by=f"{self.home.name}.stream", at=begin, health=rules)
        )
        self.epochs(begin)
        self.story(begin)
        if self.kind in ("healthy", "behind", "restarted", "cutover"):
            self.back_up()

    def back_up(self) -> None:
        """Take a real backup of a small checkpoint, and verify it."""
        epoch = self.home.newest_epoch()
        status = self.home.status(epoch.number) if epoch else None
        assert status is not None
        query, hour = status.queries[0], timedelta(hours=1)
        folder = Path(query.checkpoint or "")
        last = max(4, query.batches - round(hour.total_seconds() / self.batch))
        for name in ("offsets", "commits", "sources"):
            (folder / name).mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": query.id}))
        for batch in range(last - 2, last + 1):
            plan = {"batchWatermarkMs": 0, "batchTimestampMs": 1_763_800_000_000, "conf": {}}
            ends = {"orders.v2": {"0": 88_000_000 + batch, "1": 88_000_000}}
            (folder / "offsets" / str(batch)).write_text(
                f"v1\n{json.dumps(plan)}\n{json.dumps(ends)}"
            )
            (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        store = open_backup_store(default_store(self.home.store.uri), create=True)
        by, at = f"{self.home.name}_backup.backup", self.now - hour
        asked = BackupRequest(origin=Origin.MANUAL, by=by, clock=lambda: at)
        taken = back_up_stream(self.home, store, asked)
        verify(store, taken.id, Level.FULL, by=by, now=at, stream=self.home.name)

    def deploy(self, number: int, at: datetime, spark: str) -> None:
        name = self.home.name
        conf = {
            "spark.sql.shuffle.partitions": "64" if number == 1 else "96",
            "spark.executor.instances": "4",
            "spark.sql.streaming.stateStore.providerClass": "RocksDBStateStoreProvider",
        }
        root = self.home.store.uri
        self.home.create_deployment(
            Deployment(
                number=number,
                stream=name,
                application=f"/opt/dags/jobs/{name}.py",
                application_sha256=hashlib.sha256(SCRIPT).hexdigest(),
                application_args=("--output", "{output}"),
                conf=conf,
                env=(),
                py_files=(),
                jars=(),
                packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:" + spark,),
                files=(),
                runtime=f"spark-{spark[:3]}",
                spark_version=spark,
                checkpoint=f"{root}/{name}/checkpoints/000001",
                output=f"{root}/{name}/output/000001",
                fair_pools=False,
                created_at=at,
                created_by="scheduled__2026-11-20" if number == 1 else "ann",
            ),
            SCRIPT,
        )

    def epochs(self, begin: datetime) -> None:
        cuts = [begin]
        if self.kind not in ("off", "idle"):
            cuts.append(begin + timedelta(hours=self.hours * 0.35))
        if self.kind in ("restarted", "gave_up", "restarting"):
            cuts.append(self.now - timedelta(minutes=52))
            cuts.append(self.now - timedelta(minutes=49))
        for index, start in enumerate(cuts):
            is_last = index == len(cuts) - 1
            end = self.end if is_last else cuts[index + 1] - timedelta(seconds=40)
            cause = LaunchCause.START if index == 0 else LaunchCause.UPGRADE
            if index >= 2:
                cause = LaunchCause.RESTART
            self.epoch(index + 1, start, end, cause, is_last=is_last, deployment=min(index + 1, 2))

    @property
    def end(self) -> datetime:
        ends = {"off": 3_600, "gave_up": 1_500, "hung": 240, "restarting": 30}
        return self.now - timedelta(seconds=ends.get(self.kind, 2))

    def epoch(
        self,
        number: int,
        start: datetime,
        end: datetime,
        cause: LaunchCause,
        *,
        is_last: bool,
        deployment: int,
    ) -> None:
        host = replace(this_host(), name="spark-gw-2", machine="0a1b2c", boot="b7")
        deployment = min(deployment, max(self.home.deployment_numbers()))
        epoch = Epoch(
            number=number,
            stream=self.home.name,
            deployment=deployment,
            token=f"{self.seed.getrandbits(64):x}",
            host=host,
            launcher="local" if self.seed.random() < 0.6 else "yarn",
            cause=cause,
            reason=_REASONS[cause],
            by=f"{self.home.name}.stream",
            created_at=start,
        )
        self.home.create_epoch(epoch)
        self.home.record_launch(
            Launch(
                epoch=number,
                token=epoch.token,
                host=host,
                launched_at=start + timedelta(seconds=1),
                driver=f"pid {self.seed.randint(2_000, 60_000)}",
                log=f"/var/log/streams/{self.home.name}/{number:06d}.log",
            )
        )
        batches = Batches(self.kind, self.now, self.seed, self.batch, self.base)
        rows = list(batches.between(start + timedelta(seconds=18), end))
        layout = Layout(self.home.name)
        history = History(self.home.store, layout.progress(number), layout.summary(number))
        at = 0.0
        for index, row in enumerate(rows):
            at = index * self.batch
            history.add(self.queries_of(row), now=at)
            if index * self.batch % 300 == 0 or index == len(rows) - 1:
                history.write(now=at)
        history.write(now=at, final=not is_last or self.kind in ("off", "gave_up"))
        self.status(epoch, start, end, rows)
        if not is_last:
            self.exit(number, end, failed=number >= 2)
        elif self.kind == "off":
            self.exit(number, end, failed=False)
        elif self.kind in ("gave_up", "restarting"):
            self.exit(number, end, failed=True)

    def queries_of(self, row: BatchProgress) -> list[BatchProgress]:
        """Return the batch of every query at this time: of one, or of three of which two have no state."""
        if self.kind != "three_queries":
            return [row]
        stateless = replace(
            row,
            watermark=None,
            watermark_delay_s=None,
            state_rows=None,
            state_bytes=None,
            state_commit_ms=None,
            cache_miss_share=None,
            dropped_rows=None,
            state_metrics={},
            observed={},
        )
        return [
            replace(
                stateless,
                query="audit",
                input_rows=0,
                input_rows_per_second=0.0,
                processed_rows_per_second=0.0,
            ),
            replace(
                stateless,
                query="copy",
                input_rows_per_second=row.input_rows_per_second * 0.4,
                duration_ms=row.duration_ms // 3,
            ),
            row,
        ]

    def status(
        self, epoch: Epoch, start: datetime, end: datetime, rows: list[BatchProgress]
    ) -> None:
        latest = rows[-1] if rows else None
        is_idle = self.kind == "idle"
        query = QueryStatus(
            name="revenue",
            id="7f1f1f7e-0000-4000-8000-000000000001",
            run_id="7f1f1f7e-0000-4000-8000-000000000002",
            checkpoint=f"{self.home.store.uri}/{self.home.name}/checkpoints/000001/revenue",
            checkpoint_origin=CheckpointOrigin.DEPLOYMENT,
            active=True,
            processing=not is_idle,
            data_available=not is_idle,
            message="Waiting for data to arrive" if is_idle else "Processing new data",
            batches=len(rows),
            progress=latest,
            planned_batch=len(rows),
            batch_for_s=2.1,
            quiet_for_s=0.0,
            committed_ago_s=4.0,
            active_tasks=0 if is_idle else 12,
            processing_interval_s=10.0,
            recent_durations_ms=tuple(row.duration_ms for row in rows[-20:]),
        )
        spark = self.home.deployment(epoch.deployment).spark_version
        self.home.store.replace(
            Layout(self.home.name).epoch(epoch.number, "status.json"),
            Status(
                stream=self.home.name,
                epoch=epoch.number,
                token=epoch.token,
                beat=len(rows) * 5,
                state=DriverState.RUNNING,
                host=epoch.host,
                pid=4711,
                started_at=start,
                at=end,
                spark_version=spark,
                application_id="local-1763821000000",
                ui_url="http://spark-gw-2:4040",
                first_progress_at=start + timedelta(seconds=20),
                queries=tuple(
                    replace(query, name=one.query, progress=one)
                    for one in (self.queries_of(latest) if latest else ())
                )
                or (query,),
            ).to_bytes(),
        )

    def exit(self, number: int, at: datetime, *, failed: bool) -> None:
        layout, store = Layout(self.home.name), self.home.store
        record = Exit(
            epoch=number,
            outcome=Outcome.FAILED if failed else Outcome.STOPPED,
            reason=_ERROR if failed else "Stopped at a batch boundary on request of ann.",
            ended_at=at,
            exception_class="KafkaConnectionException" if failed else None,
            condition="STREAM_FAILED" if failed else None,
            conditions=("STREAM_FAILED",) if failed else (),
            query="revenue" if failed else None,
            batch_id=6_120 if failed else None,
            failure_kind=FailureKind.UNKNOWN if failed else None,
            signature="s1" if failed else None,
        )
        store.create(layout.epoch(number, "exit.json"), layout.bytes_of(record))
        if failed:
            gives_up = self.kind == "gave_up" and number >= 4
            waits = self.kind == "restarting" and number >= 4
            self.home.record_restart_decision(
                RestartDecision(
                    epoch=number,
                    action=RestartAction.GIVE_UP if gives_up else RestartAction.RESTART,
                    decided_at=at,
                    next_attempt_at=None
                    if gives_up
                    else at + timedelta(minutes=4 if waits else 0, seconds=5),
                    consecutive_failures=number - 2,
                    reason="The restart budget of 5 in 1 h is spent; the circuit opens."
                    if gives_up
                    else "Failure 1 in a row: restarting in 4 min.",
                    backing_off=waits,
                )
            )

    def story(self, begin: datetime) -> None:
        at = begin
        self.tell(EventKind.DEPLOYED, at, "Deployment 1 on Spark 4.1.4.")
        self.tell(EventKind.LAUNCHED, at, "Epoch 1: driver pid 2211 on spark-gw-2.", 1)
        if self.kind not in ("off", "idle"):
            up = begin + timedelta(hours=self.hours * 0.35)
            self.tell(EventKind.UPGRADE, up, "Upgrade to deployment 2 kept: soak passed in 10 min.")
            self.tell(EventKind.DEPLOYED, up, "Deployment 2 on Spark 4.3.0.", by="ann")
            self.tell(EventKind.LAUNCHED, up, "Epoch 2: driver pid 3321 on spark-gw-2.", 2)
        if self.kind in ("restarted", "gave_up", "restarting"):
            for number, minutes in ((3, 52), (4, 49)):
                when = self.now - timedelta(minutes=minutes)
                self.tell(
                    EventKind.RESTART_DECIDED, when, "Connection to broker-1:9092 lost.", number - 1
                )
                self.tell(EventKind.LAUNCHED, when, f"Epoch {number}: driver started.", number)
                self.alert(
                    AlertKind.RESTARTED, when, "restart", "Driver failed; restarting.", number - 1
                )
        match self.kind:
            case "behind":
                self.alert(
                    AlertKind.UNHEALTHY,
                    self.now - timedelta(minutes=74),
                    "backlog_records/revenue",
                    "Source 'orders.v2' of query 'revenue' has had a backlog of 214,003 records "
                    "(backlog_records: above 200,000 records over 10 min).",
                    2,
                    rule="backlog_records",
                )
            case "restarted":
                when = self.now - timedelta(minutes=46)
                self.alert(AlertKind.RECOVERED, when, "restart", "Epoch 4 commits batches.", 4)
            case "gave_up":
                self.home.open_circuit(
                    epoch=4,
                    by=f"{self.home.name}.stream",
                    reason="The restart budget of 5 in 1 h is spent.",
                    now=self.end,
                )
                self.tell(EventKind.CIRCUIT_OPENED, self.end, "Circuit opened.", 4)
                self.alert(
                    AlertKind.GAVE_UP,
                    self.end,
                    "restart",
                    "The restart budget is spent.",
                    4,
                    remedy="Fix the connection to broker-1:9092, then start the stream.",
                )
            case "off":
                self.home.want(
                    DesiredState.STOPPED, by="ann", reason="Source topic is migrated", now=self.end
                )
                self.tell(
                    EventKind.DESIRED,
                    self.end,
                    'Desired state is "stopped": source topic is migrated',
                    by="ann",
                )
            case "cutover":
                self.cutover()

    def cutover(self) -> None:
        name, now = self.home.name, self.now
        green = self.home.beside(f"{name}.green")
        lane = Making(green, "healthy", now, self.seed, min(1.2, self.hours), self.batch)
        lane.base = self.base
        made = replace(
            self.home.deployment(2),
            number=1,
            stream=green.name,
            color="green",
            spark_version="4.3.0",
            created_at=now - timedelta(minutes=70),
            output=f"{green.store.uri}/{green.name}/output/000001",
        )
        green.create_deployment(made, SCRIPT)
        lane.epoch(
            1,
            now - timedelta(minutes=70),
            now - timedelta(seconds=2),
            LaunchCause.CUTOVER,
            is_last=True,
            deployment=1,
        )
        pair = Pair(
            stream=name,
            blue=name,
            green=green.name,
            blue_deployment=2,
            shadow=made,
            live=made,
            start=StartWay.FRESH,
            queries=("revenue",),
        )
        for minutes, text in write_cutover(self.home, pair, now):
            self.tell(EventKind.CUTOVER, now - timedelta(minutes=minutes), text)

    def tell(
        self, kind: EventKind, at: datetime, text: str, epoch: int | None = None, *, by: str = ""
    ) -> None:
        who = by or f"{self.home.name}.stream"
        self.home.add_event(Event(event=kind, at=at, by=who, message=text, epoch=epoch))

    def alert(
        self, kind: AlertKind, at: datetime, key: str, reason: str, epoch: int, **more: Any
    ) -> None:
        self.home.add_alert(
            Alert(
                stream=self.home.name,
                alert=kind,
                key=key,
                epoch=epoch,
                at=at,
                by=f"{self.home.name}.stream",
                reason=reason,
                severity=Severity.ALERT,
                query="revenue",
                **more,
            )
        )


_REASONS = {
    LaunchCause.START: "Desired state is running.",
    LaunchCause.UPGRADE: "Upgrade to deployment 2.",
    LaunchCause.RESTART: "The driver before it failed; the restart is within its budget.",
    LaunchCause.CUTOVER: "Green lane of a cutover.",
}
_ERROR = (
    "[STREAM_FAILED] Query [id = 7f1f1f7e, runId = 7f1f1f7e] terminated with exception: Failed to "
    "read orders.v2-1 at offset 88120007\n"
    "Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before "
    "the position for partition orders.v2-1 could be determined\n"
    "\tat org.apache.spark.sql.kafka010.consumer.FetchedData.fetch(KafkaDataConsumer.scala:104)"
)


def write_home(
    folder: Path,
    names: dict[str, str],
    *,
    hours: float = 24.0,
    batch: float = 10.0,
    seed: int = 7,
) -> Home:
    """
    Write a home.

    :param names: By stream, its kind, one of ``KINDS`` or ``three_queries``.
    :param hours: How far its history goes back.
    :param batch: Seconds between two batches.
    """
    home, now = Home(LocalStore(str(folder))), datetime.now(UTC)
    for number, (name, kind) in enumerate(names.items()):
        chance = random.Random(seed * 1000 + number)
        Making(home.stream(name), kind, now, chance, hours, batch).write()
    return home


def many(count: int) -> dict[str, str]:
    """Return names and kinds of a plausible fleet: most of it is well."""
    topics = (
        "orders",
        "payments",
        "clicks",
        "inventory",
        "shipments",
        "sessions",
        "fraud",
        "prices",
    )
    places = ("eu", "us", "apac", "latam", "global")
    found = {}
    for number in range(count):
        name = f"{topics[number % 8]}_{places[number // 8 % 5]}" + (
            f"_{number // 40}" if number >= 40 else ""
        )
        found[name] = (
            KINDS[number % 9] if number < 9 else "healthy" if number % 11 else KINDS[number % 5]
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--batch", type=float, default=10.0, help="seconds between two batches")
    arguments = parser.parse_args()
    write_home(
        arguments.folder, many(arguments.streams), hours=arguments.hours, batch=arguments.batch
    )


if __name__ == "__main__":
    main()
