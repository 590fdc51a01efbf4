"""
Preflight of an upgrade in place: plan mode, both gates, and the way back, in one report.

It only reads. Plan mode needs a JVM, and the gates run only on differences: the version gate for
another Spark, the rollback of the code for other code.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.advice.sizing import SizeSource
from airflow_streaming.advice.stream_sizing import stream_advice
from airflow_streaming.changes.upgrade.preflight_report import (
    Preflight,
    differences,
    joined,
    kept_live,
)
from airflow_streaming.changes.upgrade.repartition import planned_for
from airflow_streaming.changes.upgrade.rollback import (
    DeploymentPair,
    Ways,
    is_same_code,
    sinks_of,
    way_back_of,
)
from airflow_streaming.changes.upgrade.steps_back import steps_back
from airflow_streaming.checkpoints.progress import Progress, no_progress
from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.gates.change.settings import PARTITIONS as PARTITIONS_RULE
from airflow_streaming.gates.change_gate import gate_stream_change
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.gates.migration.migrations import (
    carrying,
    lifted,
    migrations_in,
    with_declared,
    with_remedy,
)
from airflow_streaming.gates.state_partitions import RepartitionPlan
from airflow_streaming.gates.version_gate import gate_stream_version
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.accepted import NO_ROLLBACK
from airflow_streaming.model.jobs.migration import StateMigration
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.own_places import comparable
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.spark_jobs.shared_spark import SharedSpark

__all__ = ["Candidate", "Ways", "ask_gates", "is_same_code", "judge_plan", "preflight"]
log: Final = logging.getLogger(__name__)


MIGRATE_REMEDY: Final = (
    "Turn on migrate, in the form or in the options of the upgrade: the new deployment then starts from a proved, "
    "migrated copy of the checkpoint, and a rollback returns to the original."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate:
    """
    Whether the state is migrated where the change is refused without it.

    :param given: The plan of a user, with initial values of his.
    :param name: Its file, for messages.
    """

    is_wanted: bool = False
    given: StateMigration | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    The proposed deployment.

    :param program: The script with its configuration, including secrets, for plan mode.
    :param of_profile: Settings of the live deployment from the stream's profile.
    """

    deployment: Deployment
    program: Program
    runtime: Runtime
    of_profile: frozenset[str] = frozenset()


def preflight(
    home: StreamHome,
    current: Deployment,
    candidate: Candidate,
    ways: Ways,
    *,
    sizes: Sequence[SizeSource] = (),
    repartitions: bool = False,
    migrate: Migrate = Migrate(),
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    spark: SharedSpark | None = None,
) -> Preflight:
    """
    Collect all facts for an upgrade before it begins.

    :param sizes: Origins of the candidate's sizes, for the report.
    :param repartitions: The state gets the candidate's number of partitions if Spark and the
        checkpoints allow it; otherwise the number has no effect on it.
    :param migrate: Whether the state is migrated.
    :param spark: Plan mode runs in this Spark; default: in one of its own.
    :raises SpecError: A habit names an unknown query.
    :raises CheckpointError: A checkpoint cannot be read.
    """
    proposed = candidate.deployment
    new = plan_script(candidate.program, candidate.runtime, progress=progress, spark=spark)
    gates = migrating(judge_plan(home, current, proposed, new, storage_options), migrate)
    migrations = migrations_in(gates) if migrate.is_wanted else ()
    both = DeploymentPair(
        current=current, proposed=proposed, old=home.newest_plans(current.number), new=new
    )
    sinks = sinks_of(both, ways.habits)
    rollback = way_back_of(home, both, sinks, ways, storage_options, is_migrated=bool(migrations))
    state = RepartitionPlan()
    if repartitions:
        state = planned_for(
            *(home, proposed.conf, proposed.spark_version),
            sinks=sinks,
            rollback=rollback,
            storage_options=storage_options,
        )
        gates = with_repartition(gates, state)
    back = steps_back(
        *(current, proposed, deployments_of(home)),
        of_profile=candidate.of_profile,
        accepted=ways.accepted,
    )
    # A failed migration is only harmless with a way back.
    accepted = frozenset(ways.accepted) - ({NO_ROLLBACK} if migrations else frozenset())
    return Preflight(
        stream=home.name,
        replaced=current.number,
        proposed=proposed,
        differences=differences(current, proposed),
        gates=joined([gates, report_of(back)], rollback, accepted=accepted),
        rollback=rollback,
        sinks=sinks,
        advice=tuple(_advice(home)),
        sizes=tuple(sizes),
        queries=tuple(plan.query for plan in new.queries),
        partitions=state.partitions,
        migrations=migrations,
        kept=kept_live(current, proposed),
    )


def migrating(gates: GateReport, migrate: Migrate) -> GateReport:
    """
    Return the gates' report with the migrations that a run wants.

    :raises SpecError: the plan of a user is of another change.
    """
    if migrate.given is not None:
        gates = with_declared(gates, migrate.given, migrate.name)
    return lifted(gates) if migrate.is_wanted else with_remedy(gates, MIGRATE_REMEDY)


def with_repartition(gates: GateReport, state: RepartitionPlan) -> GateReport:
    """Replace the finding that the number has no effect by the planned repartition."""
    about = PARTITIONS_RULE.name if state.partitions else ""
    kept = [finding for finding in gates.findings if finding.rule != about]
    return report_of([*kept, *state.findings], gates.pattern)


def ask_gates(
    home: StreamHome,
    current: Deployment,
    candidate: Candidate,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> GateReport:
    """Return the gates' findings on a candidate, without the way back; raises the same."""
    new = plan_script(candidate.program, candidate.runtime)
    gates = judge_plan(home, current, candidate.deployment, new, storage_options)
    back = steps_back(
        *(current, candidate.deployment, deployments_of(home)), of_profile=candidate.of_profile
    )
    return report_of([*gates.findings, *back], gates.pattern)


def deployments_of(home: StreamHome) -> list[Deployment]:
    """Return the deployments of both lanes of a stream, as far as they can be read."""
    found: list[Deployment] = []
    for lane in (home, home.beside(other_lane(home.name))):
        for number in lane.deployment_numbers():
            with contextlib.suppress(RecordError):
                found.append(lane.deployment(number))
    return found


def judge_plan(
    home: StreamHome,
    current: Deployment,
    proposed: Deployment,
    new: ScriptPlan,
    storage_options: Mapping[str, Any] | None,
) -> GateReport:
    """Return the gates' report on an existing plan; raises as ``preflight``."""
    change = gate_stream_change(
        home,
        replace(new, queries=tuple(comparable(plan, proposed, current) for plan in new.queries)),
        storage_options=storage_options,
        same_code=is_same_code(current, proposed),
        versions=None,
    )
    reports = [
        *_of_script(new),
        change,
        *_of_version(home, current, proposed, storage_options),
    ]
    whole = report_of([f for report in reports for f in report.findings], change.pattern)
    return carrying(whole, migrations_in(change))


def _of_script(new: ScriptPlan) -> Iterator[GateReport]:
    # Plan mode returns the queries that started before the script failed; do not judge only these.
    if new.problem:
        yield report_of(
            [
                GateFinding(
                    rule="plan.script",
                    severity=GateDecision.NOT_ALLOWED,
                    message=f"The script did not finish in plan mode: {new.problem}",
                    evidence=f"plan mode on Spark {new.spark}",
                    remedy="Fix the script, or let it start its queries without the missing resources "
                    "when AIRFLOW_STREAMING_PLAN is set in its environment.",
                )
            ]
        )


def _of_version(
    home: StreamHome,
    current: Deployment,
    proposed: Deployment,
    storage_options: Mapping[str, Any] | None,
) -> Iterator[GateReport]:
    if current.spark_version != proposed.spark_version:
        yield gate_stream_version(
            home,
            proposed.spark_version,
            from_version=current.spark_version,
            conf=proposed.conf,
            storage_options=storage_options,
        )


def _advice(home: StreamHome) -> Iterator[str]:
    try:
        for one in stream_advice(home):
            yield f"{one.reason} {one.caution}".strip()
    except StreamingError as err:
        # Advice is worth no failed upgrade.
        log.warning("The size of stream %s could not be judged: %s", home.name, err)
