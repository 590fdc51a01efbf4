"""Changes of a stream that are open: an upgrade and a cutover, written step by step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.records.control import Change, ChangeKind
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms, Pair, Result
from airflow_streaming.model.records.cutover_table import (
    CUTOVER,
    CutoverEvent,
    CutoverState,
    CutoverTransition,
)
from airflow_streaming.model.records.upgrade import RollbackMethod, RollbackPlan, UpgradeTerms
from airflow_streaming.model.records.upgrade_table import (
    UPGRADE,
    Stage,
    UpgradeEvent,
    UpgradeTransition,
)


def write_upgrade(
    home: StreamHome, *events: UpgradeEvent, migrations: tuple[StateMigration, ...] = ()
) -> int:
    """Open an upgrade of a stream, let some events happen to it, and return its number."""
    current, now = home.newest_deployment(), datetime.now(UTC)
    assert current is not None
    number = home.next_change()
    terms = UpgradeTerms(
        change=number,
        proposed=replace(current, number=current.number + 1, created_by="ann"),
        rollback=RollbackPlan(
            way=RollbackMethod.REWIND,
            reason="The checkpoint as it was at the stop is backed up.",
            replay="The batches since the upgrade run again.",
        ),
        keeps_by_itself=False,
        migrations=migrations,
    )
    digest = home.keep_terms(terms)
    home.begin_change(
        Change(
            number=number,
            stream=home.name,
            what=ChangeKind.UPGRADE,
            replaced=current.number,
            deployment=current.number + 1,
            checkpoint=current.checkpoint,
            by="ann",
            reason="Spark 4.3",
            at=now,
            terms=digest,
        )
    )
    stage = Stage.BEGUN
    for count, event in enumerate(events, start=1):
        after = UPGRADE.after(stage, event)
        home.take_step(
            UpgradeTransition(
                change=number,
                number=count,
                before=stage,
                event=event,
                after=after,
                reason=f"It came to {after.value}.",
                at=now,
                by=f"{home.name}_upgrade",
                facts={"verdict": "good"} if after is Stage.JUDGED else {},
            )
        )
        stage = after
    return number


def write_cutover(home: StreamHome, pair: Pair, now: datetime) -> list[tuple[int, str]]:
    """Open a cutover whose output was compared, and return its steps: how many minutes ago, and what."""
    change = home.next_change()
    terms = CutoverTerms(change=change, pairs=(pair,), way=SwitchMethod.PARALLEL)
    digest = home.keep_cutover_terms(terms)
    home.begin_change(
        Change(
            number=change,
            stream=home.name,
            what=ChangeKind.CUTOVER,
            replaced=2,
            deployment=1,
            checkpoint=pair.live.checkpoint,
            by="ann",
            reason="New aggregation by region",
            at=now - timedelta(minutes=71),
            terms=digest,
        )
    )
    steps = [
        (CutoverEvent.BEGIN, 70, "Terms recorded."),
        (CutoverEvent.GREEN_STARTED, 69, "Driver of epoch 1 of the green lane runs."),
        (CutoverEvent.GREEN_CAUGHT_UP, 41, "Green is 3 s behind blue."),
        (CutoverEvent.GREEN_WELL, 21, "Green has been healthy for 20 min."),
        (CutoverEvent.OUTPUT_SAME, 12, "1,204,551 rows in 40 buckets are the same."),
    ]
    state, told = CutoverState.PLANNED, []
    for number, (event, minutes, reason) in enumerate(steps, start=1):
        to = CUTOVER.after(state, event)
        home.take_step(
            CutoverTransition(
                change=change,
                number=number,
                before=state,
                event=event,
                after=to,
                reason=reason,
                at=now - timedelta(minutes=minutes),
                by=f"{home.name}_blue_green",
            )
        )
        told.append((minutes, f"{to.value}: {reason}"))
        state = to
    home.record_check(
        CheckResult(
            change=change,
            step=4,
            name=f"compare.{home.name}",
            result=Result.PASS,
            reason="1,204,551 rows in 40 buckets are the same.",
            at=now - timedelta(minutes=12),
            by=f"{home.name}_blue_green",
            figures={"rows": "1204551", "buckets": "40", "differing_buckets": "0"},
        )
    )
    return told
