"""
The command ``disaster-drill``: would the selected streams survive the loss of their home.

Each is restored from its newest backup into another place and run to the present there; nothing live is touched.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.cli.acts.group import live_lanes
from airflow_streaming.cli.common import (
    INCONCLUSIVE,
    OK,
    PROBLEM,
    add_person,
    add_report,
    number,
    person_of,
    place,
)
from airflow_streaming.cli.output import NOT_WRITTEN, answer, complain, notice, progress, write_page
from airflow_streaming.exceptions import (
    BackupStoreMissing,
    RecordError,
    SpecError,
)
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.recovery import (
    DisasterDrill,
    RecoveryVerdict,
    StreamRecovery,
)
from airflow_streaming.model.names import base_of
from airflow_streaming.reports.campaigns.disaster import drill_facts, drill_report, worst_verdict
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.services.disaster.drill import (
    DRILLED,
    DrillMember,
    DrillTerms,
    begin_drill,
    run_drill,
)
from airflow_streaming.services.disaster.drills import Drills
from airflow_streaming.services.disaster.place import DrillPlace
from airflow_streaming.services.streams import Probe
from airflow_streaming.spark_jobs.drill import choose_runtime, runtimes_from
from airflow_streaming.spark_jobs.runner import Program, deployed_program

_CODES: Final = {
    RecoveryVerdict.LOST: PROBLEM,
    RecoveryVerdict.UNPROVEN: INCONCLUSIVE,
    RecoveryVerdict.RECOVERED: OK,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--to",
        required=True,
        metavar="URI",
        help="home of the drills, outside the live one: another folder or bucket (required)",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--select", metavar="SELECTOR", help="the streams, e.g. 'tier=1'")
    what.add_argument("--show", action="store_true", help="show the newest drill, and run nothing")
    parser.add_argument(
        "--store",
        type=place,
        metavar="URI",
        help="backup store of the streams (default: folder _backups of the home)",
    )
    parser.add_argument(
        "--at-once",
        type=number(1, 32, is_whole=True),
        default=1,
        metavar="N",
        help="streams at a time, each with a Spark on this host (default: 1)",
    )
    parser.add_argument(
        "--seconds",
        type=number(1, 86_400, "seconds"),
        default=DRILLED.seconds,
        metavar="SECONDS",
        help="time for the queries of one stream (default: %(default)g)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the restored checkpoints in the drill's home"
    )
    add_person(parser)
    add_report(parser)


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Drill, show the recoveries, and return the exit code.

    :raises SpecError: an argument is wrong, or the place overlaps the live home.
    :raises StreamingError: a store is not available.
    """
    place_of_drill = DrillPlace(store=open_home(arguments.to).store)
    drills = Drills(place_of_drill.store)
    if arguments.show:
        newest = drills.newest()
        if newest is None:
            complain(f"{arguments.to} has no disaster drill.")
            return PROBLEM
        return _show(newest, [*drills.recoveries(newest).values()], arguments)
    lanes = live_lanes(home, arguments.select, probe)
    backups = arguments.store or default_store(home.store.uri)
    try:
        drill = begin_drill(
            place_of_drill,
            home.store.uri,
            [base_of(lane.name) for lane in lanes],
            backups=backups,
            open_backups=lambda: open_backup_store(backups, home=home.store),
            selector=arguments.select,
            key=f"select {arguments.select}",
            by=person_of(arguments).name,
            now=datetime.now(UTC),
        )
    except BackupStoreMissing as err:
        # The code of another error is the code of a lost stream.
        raise SpecError(f"{err} Nothing was drilled.") from err
    terms = DrillTerms(
        bounds=replace(DRILLED, seconds=arguments.seconds),
        at_once=arguments.at_once,
        keeps=arguments.keep,
    )
    with progress() as told:
        found = run_drill(
            place_of_drill,
            drill,
            lambda name: _member(home, name, backups),
            terms,
            now=lambda: datetime.now(UTC),
            progress=told,
            tell=lambda one: notice(f"{one.name}: {one.result.value.replace('_', ' ')}"),
        )
    return _show(drill, found, arguments)


def _show(drill: DisasterDrill, found: list[StreamRecovery], arguments: argparse.Namespace) -> int:
    report = drill_report(drill, found)
    answer(report, drill_facts(drill, found), as_json=arguments.json)
    if not write_page(arguments.report, lambda: markdown(report)):
        return NOT_WRITTEN
    is_whole = len(found) == len(drill.streams)
    code = _CODES[worst_verdict(found)]
    return code if is_whole or code == PROBLEM else INCONCLUSIVE


def _member(home: Home, name: str, backups: str) -> DrillMember:
    lane = live_lane(home, name)

    def program(backup: Backup) -> Program:
        if backup.deployment is None:
            raise RecordError(
                f"Backup {backup.id} names no deployment, so its script is not known."
            )
        return deployed_program(home, lane, backup.deployment)

    def runtime(backup: Backup) -> Runtime:
        return choose_runtime(runtimes_from(os.environ), backup)

    return DrillMember(
        lane=lane,
        backups=lambda: open_backup_store(backups, home=home.store),
        program=program,
        runtime=runtime,
    )
