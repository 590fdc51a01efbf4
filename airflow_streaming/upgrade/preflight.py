"""
Preflight of an upgrade in place: plan mode, both gates, and the way back, in one report.

Everything here reads. Only plan mode needs a JVM, and only what differs is asked about: the version
gate when the Spark changes, the way back of the code when the code does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.checkpoint.progress import Progress, no_progress
from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    report_of,
)
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.plan.plan import ScriptPlan
from airflow_streaming.core.upgrade.preflight import Preflight, differences, joined
from airflow_streaming.core.upgrade.rollback import plan_rollback
from airflow_streaming.core.upgrade.rollback_sinks import SinkFacts, SinkHabit, sink_facts_of
from airflow_streaming.core.upgrade.terms import RollbackPlan
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.upgrade.change_gate import gate_change, gate_stream_change
from airflow_streaming.upgrade.plan_mode import plan_script
from airflow_streaming.upgrade.rehearsal import checkpoints_of
from airflow_streaming.upgrade.sizing import stream_advice
from airflow_streaming.upgrade.version_gate import gate_stream_version, gate_way_back

log: Final = logging.getLogger(__name__)

_CODE: Final = ("application_sha256", "application_args", "py_files", "jars", "packages", "files")
"""Fields of a deployment that are the user's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """
    What the author says of going back.

    :param habits: What a sink does with a batch id it has seen, by the query's name.
    :param has_rewinder: There is a function that takes batches back out of the sinks.
    :param accept_replay: Rows that come twice are accepted.
    :param needs_way_back: An upgrade without a way back is refused.
    """

    habits: Mapping[str, SinkHabit] = field(default_factory=dict)
    has_rewinder: bool = False
    accept_replay: bool = False
    needs_way_back: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    What is to be deployed.

    :param deployment: As proposed.
    :param program: The script with its configuration, secrets included, for plan mode.
    :param runtime: The Spark that is to run it.
    """

    deployment: Deployment
    program: Program
    runtime: Runtime


def preflight(
    home: StreamHome,
    current: Deployment,
    candidate: Candidate,
    ways: Ways,
    *,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Preflight:
    """
    Look at everything that can be known of an upgrade before it is begun.

    :raises LaunchError: plan mode's Spark could not be started.
    :raises CheckpointError: a checkpoint cannot be read.
    :raises HomeUnavailable: a store cannot be reached.
    """
    proposed = candidate.deployment
    new = plan_script(candidate.program, candidate.runtime, progress=progress)
    gates = _judge(home, current, proposed, new, storage_options)
    sinks = sink_facts_of(home.newest_plans() or new.queries, ways.habits)
    rollback = _way_back(home, current, proposed, new, sinks, ways, storage_options)
    return Preflight(
        stream=home.name,
        replaced=current.number,
        proposed=proposed,
        differences=differences(current, proposed),
        gates=joined([gates], rollback, needs_way_back=ways.needs_way_back),
        rollback=rollback,
        sinks=sinks,
        advice=tuple(_advice(home)),
    )


def ask_gates(
    home: StreamHome,
    current: Deployment,
    candidate: Candidate,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> GateReport:
    """Return what the gates say of a candidate, without the way back; raises the same."""
    new = plan_script(candidate.program, candidate.runtime)
    return _judge(home, current, candidate.deployment, new, storage_options)


def is_same_code(current: Deployment, proposed: Deployment) -> bool:
    """Tell whether two deployments run the same code, whatever their configuration is."""
    return all(getattr(current, name) == getattr(proposed, name) for name in _CODE)


def _judge(
    home: StreamHome,
    current: Deployment,
    proposed: Deployment,
    new: ScriptPlan,
    storage_options: Mapping[str, Any] | None,
) -> GateReport:
    change = gate_stream_change(
        home, new, storage_options=storage_options, same_code=is_same_code(current, proposed)
    )
    reports = [
        *_of_script(new),
        change,
        *_of_version(home, current, proposed, storage_options),
    ]
    return report_of([f for report in reports for f in report.findings], change.pattern)


def _of_script(new: ScriptPlan) -> Iterator[GateReport]:
    # Plan mode gives what was started until the script failed, and the gate would judge that much.
    if new.problem:
        yield report_of(
            [
                GateFinding(
                    rule="plan.script",
                    severity=GateDecision.NOT_ALLOWED,
                    message=f"The script comes to no end in plan mode: {new.problem}",
                    evidence=f"plan mode on Spark {new.spark}",
                    remedy="Mend the script, or let it start its queries without what is not there "
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


def _way_back(
    home: StreamHome,
    current: Deployment,
    proposed: Deployment,
    new: ScriptPlan,
    sinks: Sequence[SinkFacts],
    ways: Ways,
    storage_options: Mapping[str, Any] | None,
) -> RollbackPlan:
    checkpoints, old = checkpoints_of(home).checkpoints, home.newest_plans()
    back, code_back = GateReport(), None
    if current.spark_version != proposed.spark_version:
        back = gate_way_back(
            checkpoints,
            current.spark_version,
            proposed.spark_version,
            plans=old,
            storage_options=storage_options,
        )
    if old and not is_same_code(current, proposed):
        deployed = ScriptPlan(
            application=current.application, spark=current.spark_version, queries=tuple(old)
        )
        code_back = gate_change(checkpoints, new.queries, deployed, storage_options=storage_options)
    return plan_rollback(
        sinks,
        back=back,
        code_back=code_back,
        has_rewinder=ways.has_rewinder,
        accept_replay=ways.accept_replay,
    )


def _advice(home: StreamHome) -> Iterator[str]:
    try:
        for one in stream_advice(home):
            yield f"{one.reason} {one.caution}".strip()
    except StreamingError as err:
        # Advice is worth no failed upgrade.
        log.warning("The size of stream %s could not be judged: %s", home.name, err)
