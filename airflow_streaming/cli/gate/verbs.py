"""What ``airflow-streaming gate`` does: the verdict as text or JSON, and as the exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_streaming.cli.gate import show
from airflow_streaming.cli.gate.planning import planned_script, read_planned
from airflow_streaming.cli.gate.subject import checkpoints, home_of, only
from airflow_streaming.cli.page import NOT_WRITTEN, write_page
from airflow_streaming.core.compatibility.finding import GateDecision, GateReport
from airflow_streaming.core.compatibility.markdown import as_markdown
from airflow_streaming.core.plan.plan import QueryPlan, ScriptPlan
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.change_gate import gate_change
from airflow_streaming.upgrade.change_versions import Versions
from airflow_streaming.upgrade.version_gate import gate_version

CODES: Final = {
    GateDecision.ALLOWED: 0,
    GateDecision.ALLOWED_WITH_CONSEQUENCE: 0,
    GateDecision.NOT_ALLOWED: 1,
    GateDecision.UNKNOWN: 3,
}


def run(arguments: argparse.Namespace) -> int:
    """
    Ask the gate and return the exit code of its decision; 2 when the page cannot be written.

    :raises SpecError: an argument that cannot be.
    :raises StreamingError: the checkpoint cannot be looked at, or Spark not be started.
    """
    home = home_of(arguments)
    report = _version(arguments, home) if arguments.verb == "version" else _change(arguments, home)
    if arguments.json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        print(show.report(report))
    is_written = write_page(arguments.report, as_markdown(report))
    return CODES[report.decision] if is_written else NOT_WRITTEN


def _version(arguments: argparse.Namespace, home: StreamHome | None) -> GateReport:
    plans: Sequence[QueryPlan] = ()
    if arguments.plan is not None:
        plans = read_planned(arguments.plan).queries
    elif home is not None:
        plans = home.newest_plans()
    if arguments.query is not None and plans:
        plans = only(arguments.query, plans)
    return gate_version(
        checkpoints(arguments, home, plans),
        _from_version(arguments, home),
        arguments.to_version,
        conf=dict(arguments.conf),
        plans=plans,
    )


def _change(arguments: argparse.Namespace, home: StreamHome | None) -> GateReport:
    _refuse_unused(arguments)
    new = (
        _with_conf(read_planned(arguments.plan), dict(arguments.conf))
        if arguments.plan is not None
        else planned_script(arguments, arguments.script)
    )
    old, old_problem = _old(arguments, home)
    if arguments.query is not None:
        # One query of several was asked about; the others are neither new nor gone.
        new = replace(new, queries=only(arguments.query, new.queries))
        old = tuple(plan for plan in old if plan.query == arguments.query)
    versions = Versions(
        start=_known_start(arguments, home),
        target=arguments.to_version or "",
        conf=dict(arguments.conf),
    )
    if versions.target and not (versions.start or old):
        # Nothing else says it.
        _from_version(arguments, home)
    places = checkpoints(arguments, home, old or new.queries)
    return gate_change(places, old, new, old_problem=old_problem, versions=versions)


def _refuse_unused(arguments: argparse.Namespace) -> None:
    has_script = arguments.script is not None or arguments.old_script is not None
    unused = {"--runtime": arguments.runtime, "arguments after --": arguments.arguments}
    given = [name for name, value in unused.items() if value]
    if given and not has_script:
        raise SpecError(
            f"No script is planned here, so nothing is done with {' and '.join(given)}. Give "
            "--script, or leave it out; a plan says by itself which Spark made it."
        )


def _with_conf(planned: ScriptPlan, conf: Mapping[str, str]) -> ScriptPlan:
    told = {key for query in planned.queries for key in query.conf}
    unknown = sorted(conf.keys() - told)
    if unknown:
        raise SpecError(
            f"The plan tells nothing of {', '.join(unknown)}, so --conf would change nothing. Make "
            "the plan with it (`plan --conf`), or give --script."
        )
    queries = tuple(replace(query, conf={**query.conf, **conf}) for query in planned.queries)
    return replace(planned, queries=queries)


def _old(arguments: argparse.Namespace, home: StreamHome | None) -> tuple[Sequence[QueryPlan], str]:
    planned: ScriptPlan | None = None
    if arguments.old_plan is not None:
        planned = read_planned(arguments.old_plan)
    elif arguments.old_script is not None:
        planned = planned_script(arguments, arguments.old_script)
    if planned is not None:
        return planned.queries, planned.problem
    return () if home is None else home.newest_plans(), ""


def _known_start(arguments: argparse.Namespace, home: StreamHome | None) -> str:
    if arguments.from_version is not None:
        return str(arguments.from_version)
    deployment = None if home is None else home.newest_deployment()
    return "" if deployment is None else deployment.spark_version


def _from_version(arguments: argparse.Namespace, home: StreamHome | None) -> str:
    known = _known_start(arguments, home)
    if not known:
        raise SpecError("Which Spark wrote the checkpoint? Give --from, for example --from 3.5.")
    return known
