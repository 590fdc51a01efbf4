"""``airflow-streaming rehearse``: a new script on a copy of a stream's checkpoints."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_streaming.cli.common import (
    INCONCLUSIVE,
    OK,
    PROBLEM,
    add_conf,
    add_report,
    add_runtime,
    add_script_arguments,
    count,
    place,
    place_of,
    seconds,
)
from airflow_streaming.cli.output import NOT_WRITTEN, answer, progress, write_page
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.gates.rehearsal_compare import CLEAN
from airflow_streaming.model.jobs.rehearsal import QUICK, Bounds

CODES: Final = {
    GateDecision.ALLOWED: OK,
    GateDecision.ALLOWED_WITH_CONSEQUENCE: OK,
    GateDecision.NOT_ALLOWED: PROBLEM,
    GateDecision.UNKNOWN: INCONCLUSIVE,
}

if TYPE_CHECKING:
    from airflow_streaming.checkpoints.copies import OfBackup, OfCheckpoints
    from airflow_streaming.gates.rehearsal import Rehearsed
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.spark_jobs.runner import Program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; the script's arguments stand last, after ``--``."""
    parser.set_defaults(run=run)
    # argparse breaks no line inside a choice.
    parser.usage = (
        "%(prog)s --script FILE --runtime NAME_OR_PATH [options]\n"
        "       (--checkpoint URI | --backup STORE ID | --stream NAME) [-- ARGUMENT ...]"
    )
    _add_subject(parser)
    parser.add_argument(
        "--query",
        metavar="NAME",
        help="query of a single checkpoint, where the script has several",
    )
    parser.add_argument(
        "--script", required=True, metavar="FILE", help="new version of the script (required)"
    )
    add_runtime(parser, "the new version is meant for (required)")
    _add_bounds(parser.add_argument_group("how far it runs"))
    _add_comparison(parser.add_argument_group("comparison with the version that runs now"))
    add_conf(parser, "the new version")
    add_report(parser)
    add_script_arguments(parser)


def _add_subject(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("checkpoints, one of (required)")
    what = group.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--checkpoint",
        type=place,
        metavar="URI",
        help="checkpoint of one query, or the folder above the checkpoints of one application",
    )
    what.add_argument(
        "--backup", nargs=2, metavar=("STORE", "ID"), help="a backup instead of live checkpoints"
    )
    what.add_argument(
        "--stream", metavar="NAME", help="a stream of the home; the report compares their pace"
    )


def _add_bounds(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--batches",
        type=count,
        default=Bounds().batches,
        metavar="N",
        help="batches of each query (default: %(default)s)",
    )
    group.add_argument(
        "--until-caught-up", action="store_true", help="run until all available input is processed"
    )
    group.add_argument(
        "--quick", action="store_true", help="replay one batch, where one can be replayed"
    )
    group.add_argument(
        "--seconds",
        type=seconds,
        default=Bounds().seconds,
        metavar="SECONDS",
        help="time limit of all queries together (default: %(default)g)",
    )


def _add_comparison(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--compare",
        action="store_true",
        help="run both versions over the same batches, and the new one from scratch where the "
        "checkpoint reaches back that far, and compare rows and state",
    )
    group.add_argument(
        "--old-script",
        metavar="OLD",
        help="version that runs now (default: script of the stream's deployment)",
    )
    group.add_argument(
        "--old-runtime",
        metavar="NAME",
        help="its Spark, a name or a folder (default: the value of --runtime)",
    )


def _compared(arguments: argparse.Namespace, home: StreamHome | None) -> int:
    from airflow_streaming.cli.spark.runtime import program_as_deployed, runtime_named
    from airflow_streaming.gates.rehearsal_compare import findings_after
    from airflow_streaming.reports.gate import gate_report
    from airflow_streaming.reports.markdown import markdown
    from airflow_streaming.spark_jobs.rehearsal_compare import Version, compare_versions

    new = Version(
        program=program_as_deployed(arguments, arguments.script, home, is_scratch=True),
        runtime=runtime_named(arguments.runtime),
    )
    old = Version(
        program=_old_program(arguments, home),
        runtime=runtime_named(arguments.old_runtime or arguments.runtime),
    )
    with progress() as told:
        found = compare_versions(
            _subject(arguments, home),
            old,
            new,
            bounds=_bounds(arguments),
            plans=() if home is None else home.newest_plans(),
            progress=told,
        )
    report = GateReport(findings=findings_after(found, GateReport(), CLEAN))
    page = gate_report(report)
    answer(page, {"decision": report.decision.value, **found.to_dict()}, as_json=arguments.json)
    if not write_page(arguments.report, lambda: markdown(page)):
        return NOT_WRITTEN
    return CODES[report.decision]


def _old_program(arguments: argparse.Namespace, home: StreamHome | None) -> Program:
    from airflow_streaming.cli.known_home import open_known
    from airflow_streaming.cli.spark.runtime import program_as_deployed
    from airflow_streaming.spark_jobs.runner import deployed_program

    if arguments.old_script is not None:
        return program_as_deployed(arguments, arguments.old_script, home, is_scratch=True)
    if home is None:
        raise SpecError("The old version is missing. Give --old-script to compare with.")
    known, deployment = open_known(arguments.home), home.newest_deployment()
    if deployment is None:
        raise SpecError(known.why_unknown(home.name))
    return deployed_program(known, home.name, deployment.number, dict(arguments.conf))


def run(arguments: argparse.Namespace) -> int:
    """
    Rehearse, show the findings, and return the exit code.

    :raises StreamingError: a store is not available, or Spark could not be started.
    """
    from airflow_streaming.cli.spark.runtime import program_as_deployed, runtime_named
    from airflow_streaming.reports.markdown import markdown
    from airflow_streaming.reports.rehearsal import rehearsal_report
    from airflow_streaming.spark_jobs.rehearsal import rehearse

    home = _home(arguments)
    if arguments.compare:
        return _compared(arguments, home)
    if arguments.old_script is not None or arguments.old_runtime is not None:
        raise SpecError("--old-script and --old-runtime have no effect without --compare.")
    with progress() as told:
        found = rehearse(
            _subject(arguments, home),
            program_as_deployed(arguments, arguments.script, home, is_scratch=True),
            runtime_named(arguments.runtime),
            bounds=_bounds(arguments),
            compare_with=home,
            progress=told,
        )
    report = rehearsal_report(found)
    answer(report, found.to_dict(), as_json=arguments.json)
    if not write_page(arguments.report, lambda: markdown(report)):
        return NOT_WRITTEN
    return OK if _is_good(found) else PROBLEM


def _is_good(found: Rehearsed) -> bool:
    return found.decision in (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)


def _home(arguments: argparse.Namespace) -> StreamHome | None:
    if arguments.stream is None:
        return None
    from airflow_streaming.cli.known_home import lane_named, open_known

    return lane_named(open_known(arguments.home), arguments.stream)


def _subject(arguments: argparse.Namespace, home: StreamHome | None) -> OfBackup | OfCheckpoints:
    from airflow_streaming.checkpoints.copies import OfBackup, checkpoints_at, checkpoints_of
    from airflow_streaming.checkpoints.vault.store import open_backup_store

    if home is not None:
        return checkpoints_of(home)
    if arguments.backup is not None:
        uri, backup_id = arguments.backup
        store = open_backup_store(place_of(uri))
        return OfBackup(store=store, backup=store.backup(backup_id))
    found = checkpoints_at(arguments.checkpoint)
    if arguments.query is None:
        return found
    if list(found.checkpoints) != [""]:
        raise SpecError("--query names the one query of a single checkpoint; here are several.")
    return replace(found, checkpoints={arguments.query: arguments.checkpoint})


def _bounds(arguments: argparse.Namespace) -> Bounds:
    if arguments.quick:
        return QUICK
    try:
        return Bounds(
            batches=arguments.batches,
            until_caught_up=arguments.until_caught_up,
            seconds=arguments.seconds,
        )
    except ValueError as err:
        raise SpecError(str(err)) from err
