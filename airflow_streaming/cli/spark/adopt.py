"""``airflow-streaming adopt``: an application with checkpoints of its own becomes a stream."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, Final

from airflow_streaming.changes.adoption import Adoption, adoption, read_script, spec_text
from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    add_conf,
    add_json,
    add_person,
    add_repeated,
    add_runtime,
    add_script_arguments,
    pair,
    person_of,
    place,
    place_of,
    seconds,
)
from airflow_streaming.cli.known_home import open_known
from airflow_streaming.cli.output import progress, show_json, show_lines
from airflow_streaming.cli.spark.runtime import runtime_named, script_of
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.placeholders import fill
from airflow_streaming.model.codec import encode
from airflow_streaming.model.jobs.drill import SCRATCH_OUTPUT
from airflow_streaming.model.names import check_is_stream, check_stream_name
from airflow_streaming.model.spark.plan import ScriptPlan
from airflow_streaming.model.uris import for_spark
from airflow_streaming.services.adopting import (
    WATCH,
    Adopted,
    adopt,
    checkpoints_to_adopt,
    place_in_home,
    writers,
)
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from airflow_streaming.storage.fsspec_blobs import open_blobs
from airflow_streaming.storage.probe import ensure_exclusive

_UNKNOWN: Final = {True: "keeps state", False: "keeps no state", None: "state unknown"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; the script's own arguments come last, after ``--``."""
    parser.set_defaults(run=run)
    parser.usage = (
        "%(prog)s SCRIPT --name STREAM --checkpoint URI [options]\n       [-- ARGUMENT ...]"
    )
    parser.add_argument("script", metavar="SCRIPT", help="path or URI of the script")
    parser.add_argument(
        "--name", required=True, metavar="STREAM", help="name of the new stream (required)"
    )
    parser.add_argument(
        "--checkpoint",
        type=place,
        default=None,
        metavar="URI",
        help="checkpoint of the query, or the folder above several",
    )
    add_repeated(parser, "--of", "QUERY=URI", "checkpoint of one query; repeatable", pair)
    add_runtime(parser, "plans the script and will run it", required=False)
    parser.add_argument(
        "--store",
        type=place,
        metavar="URI",
        help="backup store for the copies (default: _backups in the home)",
    )
    parser.add_argument(
        "--watch",
        type=seconds,
        default=WATCH,
        metavar="SECONDS",
        help=f"watch the checkpoints this long for another writer (default: {WATCH:.0f})",
    )
    parser.add_argument("--dry-run", action="store_true", help="examine only; write nothing")
    add_conf(parser, "the script")
    add_json(parser)
    add_person(parser)
    add_script_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """
    Examine an application, print its spec, and copy its checkpoints unless something is in the way.

    :raises SpecError: wrong use.
    :raises StreamingError: the script or a checkpoint cannot be read, or cannot be copied.
    """
    home = _home(arguments)
    stream = home.stream(live_lane(home, check_is_stream(check_stream_name(arguments.name))))
    if arguments.checkpoint is None and not arguments.of:
        raise SpecError("Which checkpoint does the script continue? Give --checkpoint, or --of.")
    target = place_in_home(stream)
    program = script_of(arguments, arguments.script)
    named = {query: place_of(uri) for query, uri in arguments.of}
    found = checkpoints_to_adopt(arguments.checkpoint or "", named)
    script = read_script(program.source)
    plan = _plan(arguments, program, home, target)
    result = adoption(script, plan, found, target)
    result = replace(result, problems=(*result.problems, *writers(found, watch=arguments.watch)))
    copied = list[Adopted]()
    if result.is_ready and not arguments.dry_run:
        person = person_of(arguments)
        with progress() as shown:
            copied = adopt(
                stream,
                open_blobs(home.store.uri),
                open_backup_store(
                    arguments.store or default_store(home.store.uri), create=True, home=home.store
                ),
                result.queries,
                by=person.name,
                reason=person.reason,
                progress=shown,
            )
    spec = spec_text(
        *(stream.name, place_of(arguments.script), home.store.uri),
        arguments.runtime or "RUNTIME",
        arguments.arguments,
    )
    if arguments.json:
        shown_json: dict[str, Any] = {**encode(result), "spec": spec, "copied": encode(copied)}
        show_json(shown_json)
    else:
        show_lines([*_lines(result, copied, is_dry=arguments.dry_run), *spec.splitlines()])
    return OK if result.is_ready else PROBLEM


def _home(arguments: argparse.Namespace) -> Home:
    home = open_known(arguments.home)
    if not arguments.dry_run:
        ensure_exclusive(home.store)
    return home


def _plan(
    arguments: argparse.Namespace, program: Program, home: Home, target: str
) -> ScriptPlan | None:
    if arguments.runtime is None:
        return None
    places = {
        "stream": arguments.name,
        "checkpoint": for_spark(target),
        "home": for_spark(home.store.uri),
        "output": SCRATCH_OUTPUT,
        "deployment": "1",
        "replay_from": "",
        "replay_from_ms": "0",
    }
    filled = tuple(fill(one, places) for one in program.arguments)
    with progress() as told:
        return plan_script(
            replace(program, arguments=filled), runtime_named(arguments.runtime), progress=told
        )


def _lines(result: Adoption, copied: list[Adopted], *, is_dry: bool) -> list[str]:
    lines = []
    for one in result.queries:
        old = one.checkpoint
        facts = [
            f"batch {'-' if old.batch is None else old.batch}",
            _UNKNOWN[old.is_stateful],
            *([f"sources {', '.join(old.sources)}"] if old.sources else []),
            *([f"written by Spark {old.spark} or newer"] if old.spark else []),
        ]
        lines.append(f"Query {one.query}: {old.uri} ({'; '.join(facts)})")
        lines.append(f"  continues at {one.to}")
    lines += [f"edit: {text}" for text in result.edits]
    lines += [f"in the way: {text}" for text in result.problems]
    if copied:
        lines += [
            f"copied: {one.query} at batch {one.batch}, backup {one.backup}" for one in copied
        ]
        lines.append(
            "The first launch of this stream continues these checkpoints. Do not start the old application again."
        )
    elif result.is_ready and is_dry:
        lines.append("Nothing is in the way. Without --dry-run the checkpoints are copied.")
    return lines
