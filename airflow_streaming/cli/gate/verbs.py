"""What ``airflow-streaming gate`` does: the verdict as text or JSON, and as the exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.cli.gate import show
from airflow_streaming.cli.gate.planning import planned_script, read_planned
from airflow_streaming.core.compatibility.finding import GateDecision, GateReport, report_of
from airflow_streaming.core.compatibility.markdown import as_markdown
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.exceptions import CheckpointError, SpecError
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.upgrade.change_gate import gate_change
from airflow_streaming.upgrade.rehearsal_place import checkpoints_at, checkpoints_of
from airflow_streaming.upgrade.version_gate import gate_version

CODES: Final = {
    GateDecision.ALLOWED: 0,
    GateDecision.ALLOWED_WITH_CONSEQUENCE: 0,
    GateDecision.NOT_ALLOWED: 1,
    GateDecision.UNKNOWN: 3,
}


def run(arguments: argparse.Namespace) -> int:
    """
    Ask the gate and return the exit code of its decision.

    :raises SpecError: an argument that cannot be.
    :raises StreamingError: the checkpoint cannot be looked at, or Spark not be started.
    """
    home = _home(arguments)
    report = _version(arguments, home) if arguments.verb == "version" else _change(arguments, home)
    if arguments.report is not None:
        arguments.report.write_text(as_markdown(report), encoding="utf-8")
    if arguments.json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        print(show.report(report))
    return CODES[report.decision]


def _home(arguments: argparse.Namespace) -> StreamHome | None:
    if arguments.stream is None:
        return None
    if not arguments.home:
        raise SpecError("Which home? Give --home, or set AIRFLOW_STREAMING_HOME.")
    stream = open_home(arguments.home, probe=False).stream(arguments.stream)
    if stream.newest_deployment() is None:
        raise CheckpointError(f"There is no stream {stream.name!r} in {arguments.home}.")
    return stream


def _version(arguments: argparse.Namespace, home: StreamHome | None) -> GateReport:
    plans: Sequence[QueryPlan] = ()
    if arguments.plan is not None:
        plans = read_planned(arguments.plan).queries
    elif home is not None:
        plans = home.newest_plans()
    return gate_version(
        _checkpoints(arguments, home, plans),
        _from_version(arguments, home),
        arguments.to_version,
        conf=dict(arguments.conf),
        plans=plans,
    )


def _change(arguments: argparse.Namespace, home: StreamHome | None) -> GateReport:
    new = (
        read_planned(arguments.plan)
        if arguments.plan is not None
        else planned_script(arguments, arguments.script)
    )
    old = _old(arguments, home)
    if arguments.query is not None:
        # One query of several was asked about; the others are neither new nor gone.
        new = replace(new, queries=_only(arguments.query, new.queries))
        old = tuple(plan for plan in old if plan.query == arguments.query)
    checkpoints = _checkpoints(arguments, home, old or new.queries)
    report = gate_change(checkpoints, old, new)
    if arguments.to_version is None:
        return report
    versions = gate_version(
        checkpoints,
        _from_version(arguments, home),
        arguments.to_version,
        conf=dict(arguments.conf),
        plans=old or new.queries,
    )
    return report_of([*report.findings, *versions.findings], report.pattern)


def _only(name: str, plans: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    found = tuple(plan for plan in plans if plan.query == name)
    if not found:
        known = ", ".join(plan.query for plan in plans) or "none"
        raise SpecError(f"The script starts no query {name!r}. Its queries are: {known}.")
    return found


def _old(arguments: argparse.Namespace, home: StreamHome | None) -> Sequence[QueryPlan]:
    planned: ScriptPlan | None = None
    if arguments.old_plan is not None:
        planned = read_planned(arguments.old_plan)
    elif arguments.old_script is not None:
        planned = planned_script(arguments, arguments.old_script)
    if planned is not None:
        return planned.queries
    return () if home is None else home.newest_plans()


def _checkpoints(
    arguments: argparse.Namespace, home: StreamHome | None, plans: Sequence[QueryPlan]
) -> Mapping[str, str]:
    if home is not None:
        return dict(checkpoints_of(home).checkpoints)
    found = dict(checkpoints_at(arguments.checkpoint).checkpoints)
    named: str | None = getattr(arguments, "query", None)
    if list(found) != [""]:
        if named is not None:
            raise SpecError("--query names the one query of a single checkpoint; here are several.")
        return found
    if named is None and len(plans) > 1:
        raise SpecError(
            "Whose checkpoint is it? Give --query with one of: "
            f"{', '.join(plan.query for plan in plans)}."
        )
    return {named or (plans[0].query if plans else ""): arguments.checkpoint}


def _from_version(arguments: argparse.Namespace, home: StreamHome | None) -> str:
    if arguments.from_version is not None:
        return str(arguments.from_version)
    deployment = None if home is None else home.newest_deployment()
    if deployment is None:
        raise SpecError("Which Spark wrote the checkpoint? Give --from, for example --from 3.5.")
    return deployment.spark_version
