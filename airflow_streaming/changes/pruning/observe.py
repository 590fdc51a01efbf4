"""Observe a stream's things and their users; writes no files."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final

from airflow_streaming.changes.pruning.decide import (
    CHUNKS_KEPT,
    FOLDER_OF,
    SIZES_KEPT,
    TIMELINES_KEPT,
    DeploymentFacts,
    EpochFacts,
    File,
    FolderFacts,
    LaneFacts,
    SeriesFacts,
)
from airflow_streaming.checkpoints.vault.store import BackupStore
from airflow_streaming.exceptions import RecordError, StreamingError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.names import (
    Color,
    Layout,
    base_of,
    color_of,
    is_path_part,
    number_of,
    numbered,
    other_lane,
)
from airflow_streaming.model.products.freshness import Timeline
from airflow_streaming.model.records.control import DesiredState, Event, RemovalKind
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Outcome
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan
from airflow_streaming.model.uris import is_local, join, local_path
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.one_look import look_at_each

_HISTORY: Final = ("progress", "summary")
_WILDCARD: Final = re.compile(r"[*?\[{]")


BackedUp = Callable[[str], frozenset[int] | None]
"""Returns the deployments that backups of a lane name; ``None`` when that cannot be read."""


def no_backups(_: str) -> frozenset[int]:
    """Answer for a stream that is known to have no backups."""
    return frozenset()


def backed_up_in(store: BackupStore) -> BackedUp:
    """Return what tells the deployments that the backups of a store name."""

    def deployments(stream: str) -> frozenset[int] | None:
        try:
            backups = [listed.backup for listed in store.listed(stream)]
        except StreamingError:
            return None
        if any(backup is None for backup in backups):
            return None
        return frozenset(one.deployment for one in backups if one and one.deployment is not None)

    return deployments


def look_at_lanes(home: Home, blobs: Blobs, stream: str, backed_up: BackedUp) -> list[LaneFacts]:
    """
    Return the facts about both lanes of a stream.

    :param blobs: The files of the home.
    :param backed_up: Returns the deployments named in backups.
    :raises RecordError: A relevant record cannot be read; remove nothing.
    """
    base = base_of(stream)
    live = live_lane(home, base)
    lanes = [home.stream(name) for name in (base, other_lane(base))]
    return [
        _lane(lane, blobs, is_live=lane.name == live, backed_up=backed_up)
        for lane in lanes
        if lane.deployment_numbers()
    ]


def used_by_others(home: Home, stream: str) -> tuple[list[str], list[str]]:
    """
    Return the places that every other stream of a home uses.

    Places are the checkpoint and the output of the newest deployment, and all paths that the newest plans of
    its queries name: sources, sinks, and checkpoints that a script has chosen itself.

    :returns: The places, and a sentence for each stream that cannot be read: it might use any folder.
    """
    own = {base_of(stream), other_lane(base_of(stream))}
    names = [name for name in home.streams() if name not in own]
    found, unread = list[str](), list[str]()
    for places, problem in look_at_each(home.store, partial(_used, home), names):
        found += places
        unread += [problem] if problem else []
    return found, unread


def _used(home: Home, name: str) -> tuple[list[str], str]:
    lane = home.stream(name)
    try:
        newest = lane.newest_deployment()
        if newest is None:
            return [], ""
        planned = [place for plan in _newest_plans(lane) for place in places_of(plan)]
        return [*map(real, (newest.checkpoint, newest.output)), *planned], ""
    except RecordError as err:
        return [], str(err)


def _newest_plans(lane: StreamHome) -> list[QueryPlan]:
    """Return the plans of the newest deployment that has recorded any."""
    # A new deployment has no plans yet, and continues the previous one's sources.
    for number in reversed(lane.deployment_numbers()):
        plans = lane.newest_plans(number)
        if plans:
            return plans
    return []


def places_of(plan: QueryPlan) -> list[str]:
    """
    Return the places that a query reads and writes, except topics and tables.

    Of a pattern, the folder above its first wildcard counts.
    """
    sides: tuple[SinkPlan | SourcePlan, ...] = (plan.sink, *plan.sources)
    options = [side.options.get("path", "") for side in sides]
    read = [path for source in plan.sources for path in source.paths]
    named = [*read, plan.sink.target, plan.checkpoint, *options]
    plain = (_WILDCARD.split(place, maxsplit=1) for place in named if "/" in place)
    return [
        real(parts[0] if len(parts) == 1 else parts[0].rpartition("/")[0] or "/") for parts in plain
    ]


def open_change_of(lane: StreamHome) -> str:
    """Return what change of a lane is open, as a sentence; empty when none is."""
    change = lane.unfinished_change()
    return "" if change is None else f"Change {change.number} ({change.what}) is open."


def real(uri: str) -> str:
    """Return a local path with its links followed; any other URI as it is."""
    return os.path.realpath(local_path(uri)) if is_local(uri) else uri


def _lane(lane: StreamHome, blobs: Blobs, *, is_live: bool, backed_up: BackedUp) -> LaneFacts:
    desired, supervision = lane.desired(), lane.supervision()
    # In this order: a change that is begun after this look finds the mark of a removal.
    change = lane.newest_change()
    end = None if change is None else lane.change_end(change.number)
    budgets = (*supervision.restart.budgets, *supervision.restart.application_budgets)
    problems: list[str] = []
    return LaneFacts(
        lane=lane.name,
        is_live=is_live,
        is_wanted=desired is not None and desired.state is DesiredState.RUNNING,
        open_change=open_change_of(lane),
        change_ended_at=None if end is None else end.at,
        epochs=tuple(_epochs(lane, blobs, problems)),
        deployments=tuple(map(_deployment, map(lane.deployment, lane.deployment_numbers()))),
        checkpoints=_folders(lane, blobs, RemovalKind.CHECKPOINT),
        outputs=_folders(lane, blobs, RemovalKind.OUTPUT),
        events=_events(lane, problems),
        sizes=tuple(_but_newest(blobs, Layout(lane.name).folder("sizes"), ".json", SIZES_KEPT)),
        series=tuple(_series(lane, blobs, problems)),
        timelines=tuple(
            _but_newest(blobs, Layout(lane.name).folder(Timeline), ".json", TIMELINES_KEPT)
        ),
        restart_window=max((budget.window for budget in budgets), default=timedelta()),
        backed_up=backed_up(lane.name),
        problems=tuple(problems),
    )


def _series(lane: StreamHome, blobs: Blobs, problems: list[str]) -> Iterator[SeriesFacts]:
    # Both lanes share the claims, which are in the folder of the blue one.
    for name in lane.window_series() if color_of(lane.name) is Color.BLUE else ():
        try:
            newest = lane.newest_window_claim(name)
        except RecordError as err:
            problems.append(f"The claims of windows {name} of {lane.name} stay: {err}")
            continue
        if newest is not None:
            yield SeriesFacts(
                name=name,
                newest=newest.number,
                base=newest.base,
                files=tuple(_claims(blobs, f"{Layout(lane.name).folder('windows')}/{name}")),
            )


def _claims(blobs: Blobs, folder: str) -> Iterator[tuple[int, File]]:
    for entry in blobs.entries(folder):
        number = number_of(f"{entry.name.removesuffix('.json').removesuffix('.end')}.json")
        if number is not None and entry.name.endswith(".json"):
            yield number, (f"{folder}/{entry.name}", entry.modified)


def _events(lane: StreamHome, problems: list[str]) -> tuple[str, ...]:
    folder = Layout(lane.name).folder(Event)
    try:
        names = lane.store.names(folder)
    except RecordError as err:
        problems.append(f"The timeline of {lane.name} stays: {err}")
        return ()
    return tuple(f"{folder}/{name}" for name in names if name.endswith(".json"))


def _deployment(deployment: Deployment) -> DeploymentFacts:
    replay = timedelta()
    if deployment.replay_from:
        try:
            replay = deployment.created_at - parse_time(deployment.replay_from, "replay_from")
        except RecordError:
            replay = timedelta()
    return DeploymentFacts(
        number=deployment.number,
        checkpoint=real(deployment.checkpoint),
        output=real(deployment.output),
        created_at=deployment.created_at,
        replay=max(replay, timedelta()),
    )


def _epochs(lane: StreamHome, blobs: Blobs, problems: list[str]) -> Iterator[EpochFacts]:
    folder = Layout(lane.name).folder(Epoch)
    recorded = set(lane.epoch_numbers())
    # An interrupted removal leaves the folder of an epoch without a record.
    left = {number_of(f"{one.name}.json") for one in blobs.entries(folder) if one.is_folder}
    newest = max(recorded, default=0)
    for number in sorted(recorded | {one for one in left if one is not None and one < newest}):
        if number not in recorded:
            yield EpochFacts(number=number, deployment=None, created_at=None)
            continue
        epoch: Epoch | None = None
        try:
            epoch = lane.epoch(number)
            yield _epoch(lane, blobs, epoch)
        except RecordError as err:
            # Treat it as an epoch without a proved end: it stays, with everything it needs.
            problems.append(
                f"Epoch {number} of {lane.name} stays: {err} Restore the file from a copy of the home, or, "
                f"when its driver is known to have ended, delete it and the folder {numbered(number)} "
                "beside it."
            )
            yield EpochFacts(
                number=number,
                deployment=None if epoch is None else epoch.deployment,
                created_at=None if epoch is None else epoch.created_at,
                is_unreadable=epoch is None,
            )


def _epoch(lane: StreamHome, blobs: Blobs, epoch: Epoch) -> EpochFacts:
    known = lane.aftermath(epoch.number)
    ends = [
        *([known.exit.ended_at] if known.exit else []),
        *([known.death.declared_at] if known.death else []),
    ]
    return EpochFacts(
        number=epoch.number,
        deployment=epoch.deployment,
        created_at=epoch.created_at,
        ended_at=max(ends, default=None),
        failed=known.exit.outcome is Outcome.FAILED if known.exit else known.death is not None,
        planned=frozenset(_planned(blobs, lane.name, epoch.number)),
        history=tuple(_history(blobs, lane.name, epoch.number)),
    )


def _planned(blobs: Blobs, lane: str, epoch: int) -> Iterator[str]:
    for entry in blobs.entries(Layout(lane).epoch(epoch, "plans")):
        if entry.name.endswith(".json") and is_path_part(entry.name):
            yield entry.name.removesuffix(".json")


def _history(blobs: Blobs, lane: str, epoch: int) -> Iterator[File]:
    # The newest of each kind stay, so each kind is counted separately.
    for kind in _HISTORY:
        yield from _but_newest(blobs, Layout(lane).epoch(epoch, kind), ".jsonl", CHUNKS_KEPT)


def _but_newest(blobs: Blobs, folder: str, ending: str, kept: int) -> Iterator[File]:
    files = [one for one in blobs.entries(folder) if one.name.endswith(ending)]
    for entry in files[:-kept]:
        yield f"{folder}/{entry.name}", entry.modified


def _folders(lane: StreamHome, blobs: Blobs, what: RemovalKind) -> tuple[FolderFacts, ...]:
    folder = Layout(lane.name).folder(FOLDER_OF[what])
    return tuple(
        FolderFacts(name=one.name, uri=real(join(lane.store.uri, folder, one.name)))
        for one in blobs.entries(folder)
        if one.is_folder and is_path_part(one.name)
    )
