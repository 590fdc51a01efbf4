"""``airflow-streaming plan`` and ``gate``: the queries of a script, and whether they may continue."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_streaming.checkpoints.copies import checkpoints_at, checkpoints_of
from airflow_streaming.cli.common import (
    INCONCLUSIVE,
    OK,
    PROBLEM,
    add_conf,
    add_home,
    add_json,
    add_report,
    add_runtime,
    add_script_arguments,
    place,
)
from airflow_streaming.cli.known_home import lane_named, open_known
from airflow_streaming.cli.output import NOT_WRITTEN, answer, notice, progress, write_page
from airflow_streaming.cli.spark.runtime import program_as_deployed, runtime_named, script_of
from airflow_streaming.exceptions import CheckpointError, RecordError, SpecError, closed
from airflow_streaming.gates.change_gate import Versions, gate_change, without_secrets
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.gates.migration.migration_file import migration_toml
from airflow_streaming.gates.migration.migrations import migrations_in
from airflow_streaming.gates.rehearsal import Rehearsed
from airflow_streaming.gates.rehearsal_due import (
    Due,
    RehearseWhen,
    decision_after,
    rehearsal_due,
)
from airflow_streaming.gates.version.matrix import release_of
from airflow_streaming.gates.version_gate import gate_version
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan
from airflow_streaming.model.wire import MAX_RECORD_BYTES, parse_json
from airflow_streaming.reports.gate import gate_report, plan_report, rules_report
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.reports.rehearsal import rehearsal_report
from airflow_streaming.reports.report import Report
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.rehearsal import rehearse
from airflow_streaming.spark_jobs.shared_spark import SharedSpark

CODES: Final = {
    GateDecision.ALLOWED: OK,
    GateDecision.ALLOWED_WITH_CONSEQUENCE: OK,
    GateDecision.NOT_ALLOWED: PROBLEM,
    GateDecision.UNKNOWN: INCONCLUSIVE,
}
_CODES: Final = (
    "Exit codes: 0 allowed, perhaps with a consequence; 1 not allowed, or the checkpoint cannot be "
    "read; 3 unknown; 2 wrong use, or the report could not be written."
)
_EPILOGS: Final = {
    "version": "Examples:\n  airflow-streaming gate version --stream orders --to 4.3\n  airflow-streaming gate "
    f"version --checkpoint s3://lake/cp --from 3.5 --to 4.3\n\n{_CODES}",
    "change": "Examples:\n  airflow-streaming gate change --stream a --script new.py --runtime spark-4.3\n"
    f"  airflow-streaming gate change --stream orders --plan new.json\n\n{_CODES}",
    "rules": None,
}


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``plan``; the script's arguments stand last, after ``--``."""
    parser.set_defaults(run=run_plan)
    parser.add_argument("script", metavar="SCRIPT", help="path or URI of the script")
    add_runtime(parser, "plans the script (required)")
    add_conf(parser, "the script")
    add_json(parser)
    add_script_arguments(parser)


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of ``gate``."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text, fill in _VERBS:
        fill(kinds.add_parser(name, help=text, description=f"{text}.", epilog=_EPILOGS[name]))


def _rules(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(run=_show_rules)


def _show_rules(_: argparse.Namespace) -> int:
    print(markdown(rules_report()), end="")
    return OK


def _version(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(run=run)
    _add_subject(verb)
    _add_query(verb)
    verb.add_argument(
        "--from",
        dest="from_version",
        type=_spark,
        metavar="VERSION",
        help="Spark that wrote the checkpoint, e.g. 3.5 (default: Spark of the stream's "
        "deployment)",
    )
    verb.add_argument(
        "--to",
        dest="to_version",
        type=_spark,
        required=True,
        metavar="VERSION",
        help="Spark to upgrade to, e.g. 4.3 (required)",
    )
    verb.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="plans of the queries, as `airflow-streaming plan --json` prints them",
    )
    add_conf(verb, "the new version")
    add_report(verb)


def _change(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(run=run)
    _add_subject(verb)
    new = verb.add_mutually_exclusive_group(required=True)
    new.add_argument("--script", metavar="NEW", help="new version of the script")
    new.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="plan of the new version, as `airflow-streaming plan --json` prints it",
    )
    old = verb.add_mutually_exclusive_group()
    old.add_argument(
        "--old-script",
        metavar="OLD",
        help="version that runs now (default: the plans of the stream)",
    )
    old.add_argument(
        "--old-plan", type=Path, metavar="FILE", help="plan of the version that runs now"
    )
    add_runtime(verb, "plans the scripts", required=False)
    _add_query(verb)
    verb.add_argument(
        "--from",
        dest="from_version",
        type=_spark,
        metavar="VERSION",
        help="Spark that wrote the checkpoint (default: Spark of the old plan)",
    )
    verb.add_argument(
        "--to",
        dest="to_version",
        type=_spark,
        metavar="VERSION",
        help="Spark that will run the new code (default: Spark of the new plan)",
    )
    verb.add_argument(
        "--rehearse",
        nargs="?",
        const=RehearseWhen.WHEN_UNKNOWN.value,
        choices=[RehearseWhen.WHEN_UNKNOWN.value, RehearseWhen.ALWAYS.value],
        metavar="WHEN",
        help="also rehearse on a copy of the checkpoints, in the Spark that makes the plan: "
        "when_unknown (default) or always",
    )
    verb.add_argument(
        "--write-migration",
        type=Path,
        metavar="FILE",
        help="write the migration of state that lifts the refusal, for `checkpoint migrate`",
    )
    add_conf(verb, "the new version")
    add_report(verb)
    add_script_arguments(verb)


def _add_subject(verb: argparse.ArgumentParser) -> None:
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--checkpoint",
        type=place,
        metavar="URI",
        help="checkpoint of one query, or the folder above the checkpoints of one application",
    )
    what.add_argument(
        "--stream",
        metavar="NAME",
        help="stream of the home, with its checkpoints and recorded plans",
    )
    add_home(verb)


def _add_query(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--query",
        metavar="NAME",
        help="judge only this query; names the query of a single checkpoint",
    )


def _spark(text: str) -> str:
    try:
        release_of(text)
    except SpecError as err:
        why = f"{text!r:.80} is not a version of Spark; write it as 3.5.9 or 4.1"
        raise argparse.ArgumentTypeError(why) from err
    return text


_VERBS: Final = (
    ("version", "Decide whether another Spark may continue from a checkpoint", _version),
    ("change", "Decide whether new code may continue from a checkpoint", _change),
    ("rules", "Print every rule of the gates, with its source, as Markdown", _rules),
)


def run_plan(arguments: argparse.Namespace) -> int:
    """
    Print a script's plan; exit code 1 when the script did not finish or starts no query.

    :raises StreamingError: the script cannot be read, or Spark not be started.
    """
    planned = planned_script(arguments, arguments.script)
    answer(plan_report(planned), planned.to_dict(), as_json=arguments.json)
    return OK if planned.queries and not planned.problem else PROBLEM


def run(arguments: argparse.Namespace) -> int:
    """
    Ask the gate and return the exit code of its decision; 2 when the report cannot be written.

    :raises StreamingError: the checkpoint cannot be read, or Spark not be started.
    """
    home = home_of(arguments)
    rehearsed: Rehearsed | None = None
    with SharedSpark() as spark:
        if arguments.verb == "version":
            found = _gate_version(arguments, home)
        else:
            found = _gate_change(arguments, home, spark)
            _write_migration(arguments.write_migration, found)
            rehearsed = _rehearsed(arguments, home, found, spark)
    report, shown = gate_report(found), found.to_dict()
    decision = decision_after(found.decision, None if rehearsed is None else rehearsed.decision)
    if rehearsed is not None:
        report = Report((*report.blocks, *rehearsal_report(rehearsed).blocks))
        shown = {**shown, "decision": decision.value, "rehearsal": rehearsed.to_dict()}
    answer(report, shown, as_json=arguments.json)
    is_written = write_page(arguments.report, lambda: markdown(report))
    return CODES[decision] if is_written else NOT_WRITTEN


def _write_migration(path: Path | None, found: GateReport) -> None:
    """
    Write the migration of a report into a new file.

    :raises SpecError: the report has migrations of several queries, or the file cannot be made.
    """
    if path is None:
        return
    migrations = migrations_in(found)
    if not migrations:
        notice(f"No migration was written to {path}; the findings say why.")
        return
    if len(migrations) > 1:
        names = ", ".join(one.query for one in migrations)
        raise SpecError(
            f"A file holds the migration of one query. Give --query with one of: {names}."
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(migration_toml(migrations[0]))
    except OSError as err:
        raise SpecError(
            f"The migration cannot be written to {path}: {closed(err.strerror or '')} Name a new file."
        ) from err


def _rehearsed(
    arguments: argparse.Namespace, home: StreamHome | None, found: GateReport, spark: SharedSpark
) -> Rehearsed | None:
    """Return the rehearsal on copies of the checkpoints; ``None`` where none is due."""
    when = RehearseWhen(arguments.rehearse or RehearseWhen.NEVER.value)
    if rehearsal_due(when, found.decision) is not Due.YES:
        return None
    at = checkpoints_at(arguments.checkpoint) if home is None else checkpoints_of(home)
    if arguments.query is not None and list(at.checkpoints) == [""]:
        at = replace(at, checkpoints={arguments.query: at.checkpoints[""]})
    program = program_as_deployed(arguments, arguments.script, home, is_scratch=True)
    with progress() as told:
        return rehearse(
            *(at, program, runtime_named(arguments.runtime)),
            compare_with=home,
            progress=told,
            spark=spark,
        )


def home_of(arguments: argparse.Namespace) -> StreamHome | None:
    """
    Return the stream of the arguments, ``None`` for a checkpoint.

    :raises SpecError: no home was named, or it does not exist.
    :raises CheckpointError: the home has no such stream.
    """
    if arguments.stream is None:
        return None
    stream = lane_named(open_known(arguments.home), arguments.stream)
    if stream.newest_deployment() is None:
        raise CheckpointError(f"Stream {stream.name!r} does not exist in {arguments.home}.")
    return stream


def only(name: str, plans: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """
    Return the plan of one query.

    :raises SpecError: the plan has no such query.
    """
    found = tuple(plan for plan in plans if plan.query == name)
    if not found:
        known = ", ".join(plan.query for plan in plans) or "none"
        raise SpecError(f"The script starts no query {name!r}. Its queries are: {known}.")
    return found


def checkpoints(
    arguments: argparse.Namespace, home: StreamHome | None, plans: Sequence[QueryPlan]
) -> Mapping[str, str]:
    """
    Return the URIs of the checkpoints of the arguments, by query.

    :raises SpecError: no checkpoint is named, or ``--query`` has none.
    :raises CheckpointError: the checkpoint does not exist.
    """
    named: str | None = arguments.query
    at = checkpoints_at(arguments.checkpoint) if home is None else checkpoints_of(home)
    found = dict(at.checkpoints)
    if list(found) == [""]:
        return {named or _only_name(plans): found[""]}
    if named is None:
        return found
    if named not in found:
        raise SpecError(
            f"Query {named!r} has no checkpoint here. Queries with a checkpoint: "
            f"{', '.join(found)}."
        )
    return {named: found[named]}


def _only_name(plans: Sequence[QueryPlan]) -> str:
    if len(plans) > 1:
        known = ", ".join(plan.query for plan in plans)
        raise SpecError(f"Whose checkpoint is it? Give --query with one of: {known}.")
    return plans[0].query if plans else ""


def planned_script(
    arguments: argparse.Namespace,
    script: str,
    home: StreamHome | None = None,
    spark: SharedSpark | None = None,
) -> ScriptPlan:
    """
    Return the plan of a script, as the deployment of a stream if there is one.

    :param spark: As of ``plan_script``.
    :raises SpecError: the runtime is missing, or a file of the deployment is not on this host.
    """
    if arguments.runtime is None:
        raise SpecError("Which Spark plans the script? Give --runtime, or --plan with a plan.")
    program = program_as_deployed(arguments, script, home)
    with progress() as told:
        return plan_script(program, runtime_named(arguments.runtime), progress=told, spark=spark)


def read_planned(path: Path) -> ScriptPlan:
    """
    Read a plan that ``plan --json`` has printed, or one query's of a home.

    :raises SpecError: it cannot be read.
    """
    # A pipe would be waited for, and a device never ends.
    if path.exists() and not path.is_file():
        raise SpecError(
            f"{path} is not a regular file. Write the plan into a file with `plan --json`."
        )
    try:
        with path.open("rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
    except OSError as err:
        why = err.strerror or type(err).__name__
        raise SpecError(
            f"{path} cannot be read: {closed(why)} Make a plan with `plan --json`."
        ) from err
    try:
        record = parse_json(data)
        if record.get("kind") != QueryPlan.KIND:
            planned = ScriptPlan.from_dict(record)
        else:
            query = QueryPlan.from_dict(record)
            planned = ScriptPlan(application=str(path), spark=query.spark, queries=(query,))
    except RecordError as err:
        why = str(err).rstrip(".")
        raise SpecError(
            f"{path} is not a plan: {closed(why)} Make one with `plan --json`."
        ) from err
    queries = tuple(map(without_secrets, planned.queries))
    return replace(planned, queries=queries, problem=presentable(planned.problem))


def _gate_version(arguments: argparse.Namespace, home: StreamHome | None) -> GateReport:
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


def _gate_change(
    arguments: argparse.Namespace, home: StreamHome | None, spark: SharedSpark
) -> GateReport:
    _refuse_unused(arguments)
    new = (
        _with_conf(read_planned(arguments.plan), dict(arguments.conf))
        if arguments.plan is not None
        else planned_script(arguments, arguments.script, home, spark)
    )
    old, old_problem = _old(arguments, home, spark)
    if arguments.query is not None:
        # The gate judges one query of several; the others are neither new nor gone.
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
    return gate_change(
        places,
        old,
        new,
        same_code=_is_deployed(arguments, home),
        old_problem=old_problem,
        versions=versions,
    )


def _is_deployed(arguments: argparse.Namespace, home: StreamHome | None) -> bool:
    """Tell whether the stream's deployment has the same script and arguments."""
    deployment = None if home is None else home.newest_deployment()
    if deployment is None or arguments.script is None or arguments.old_script or arguments.old_plan:
        return False
    if deployment.py_files or deployment.jars or deployment.packages or deployment.files:
        # Their content may have changed since the deployment was recorded.
        return False
    given = script_of(arguments, arguments.script)
    known = deployment.arguments(open_known(arguments.home).store.uri)
    return hashlib.sha256(given.source).hexdigest() == deployment.application_sha256 and (
        not given.arguments or list(given.arguments) == known
    )


def _refuse_unused(arguments: argparse.Namespace) -> None:
    has_script = arguments.script is not None or arguments.old_script is not None
    unused = {"--runtime": arguments.runtime, "arguments after --": arguments.arguments}
    given = [name for name, value in unused.items() if value]
    if arguments.rehearse and arguments.script is None:
        raise SpecError("A plan cannot be rehearsed. Give --script and --runtime with --rehearse.")
    if given and not has_script:
        raise SpecError(
            f"No script is planned here, so {' and '.join(given)} would have no effect. Give --script, or "
            "leave it out; a plan names the Spark that made it."
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


def _old(
    arguments: argparse.Namespace, home: StreamHome | None, spark: SharedSpark
) -> tuple[Sequence[QueryPlan], str]:
    planned: ScriptPlan | None = None
    if arguments.old_plan is not None:
        planned = read_planned(arguments.old_plan)
    elif arguments.old_script is not None:
        planned = planned_script(arguments, arguments.old_script, home, spark)
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
