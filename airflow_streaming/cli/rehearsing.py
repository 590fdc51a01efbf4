"""What ``airflow-streaming rehearse`` does, and how it shows what it found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_streaming.checkpoint.store import open_backup_store
from airflow_streaming.cli.argument_types import place
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.known_home import open_known
from airflow_streaming.cli.lane import lane_named
from airflow_streaming.cli.page import NOT_WRITTEN, write_page
from airflow_streaming.cli.program import runtime_named, script_of
from airflow_streaming.cli.table import printable
from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.compatibility.markdown import DECISION_WORDS
from airflow_streaming.core.rehearsal.markdown import as_markdown, pace_text, summary
from airflow_streaming.core.rehearsal.order import QUICK, Bounds
from airflow_streaming.core.rehearsal.rehearsed import Rehearsed
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.upgrade.rehearsal import (
    OfBackup,
    OfCheckpoints,
    checkpoints_at,
    checkpoints_of,
    rehearse,
)

OK: Final = 0
PROBLEM: Final = 1


def run(arguments: argparse.Namespace) -> int:
    """
    Rehearse, show what was found, and return the exit code.

    :raises SpecError: an argument that cannot be.
    :raises StreamingError: a store is away, or Spark could not be started.
    """
    home = _home(arguments)
    found = rehearse(
        _subject(arguments, home),
        script_of(arguments, arguments.script),
        runtime_named(arguments.runtime),
        bounds=_bounds(arguments),
        compare_with=home,
        progress=Told(),
    )
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print("\n".join(printable(line) for line in _lines(found)))
    if not write_page(arguments.report, as_markdown(found)):
        return NOT_WRITTEN
    return OK if _is_good(found) else PROBLEM


def _is_good(found: Rehearsed) -> bool:
    return found.decision in (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)


def _home(arguments: argparse.Namespace) -> StreamHome | None:
    if arguments.stream is None:
        return None
    return lane_named(open_known(arguments.home), arguments.stream)


def _subject(arguments: argparse.Namespace, home: StreamHome | None) -> OfBackup | OfCheckpoints:
    if home is not None:
        return checkpoints_of(home)
    if arguments.backup is not None:
        uri, backup_id = arguments.backup
        store = open_backup_store(place(uri))
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


def _lines(found: Rehearsed) -> Iterator[str]:
    spark = f" on Spark {found.spark}" if found.spark else ""
    yield _words(found.decision).upper()
    yield f"{found.application}{spark}, against {found.subject}"
    for query in found.queries:
        yield f"  {query.query or 'the query'}: {summary(query)}"
        if query.started:
            rows = f"{query.input_rows:,} rows in, {query.output_rows:,} out"
            state = "" if query.state_rows is None else f", {query.state_rows:,} in the state"
            yield f"    {rows}{state}; {pace_text(query.pace)}"
        if query.live is not None:
            yield f"    running version: {pace_text(query.live)}"
        for note in query.notes:
            yield f"    {note}"
    for finding in found.findings:
        yield f"{_words(finding.severity)} [{finding.rule}] {finding.message}"
        if finding.remedy:
            yield f"    {finding.remedy}"


def _words(decision: GateDecision) -> str:
    # A rehearsal that proved nothing does not ask for another one by its name.
    return DECISION_WORDS[decision].partition(":")[0]
