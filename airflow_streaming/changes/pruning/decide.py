"""
Decide which old things of a stream are not needed, from observed facts.

All rules err on the side of keeping:

- while a change of either lane is open, everything of the stream stays;

- an epoch is as old as its successor, and stays until its driver is proved to have ended, and while
its record cannot be read;

- the newest epochs of each lane, its last failed one, and the newest one that recorded the plan of
a query of a deployment in use stay for good;

- a deployment is in use while it is the newest of a lane that is live, should run, has a driver
that was not proved dead, or ended any of this within the period; and while less than the period has
passed since it was replaced;

- a checkpoint or an output is removed only if it is in the home, a deployment of the stream names
it or a place in it, and it does not overlap a checkpoint or an output that any stream of the home
uses. Folders that no deployment names stay: a restored copy, or notes.

Outputs are data. They are removed only on request, and not while a backup names their deployment:
restoring a file sink's query rewrites the log in its output. An output inside a checkpoint keeps
that checkpoint, and the other way round.

Of the claims of a window series the newest one stays, and the one that it continues: the next task
reads both. Requests stay: the next number follows the newest request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.control import RemovalKind
from airflow_streaming.model.uris import overlap

EVENTS_KEPT: Final = 200
"""Lines of the timeline that stay, however old: as many as the page shows."""
FOLDER_OF: Final = {RemovalKind.CHECKPOINT: "checkpoints", RemovalKind.OUTPUT: "output"}
CHUNKS_KEPT: Final = 10
"""Chunks of an epoch's history that stay, however old."""
SIZES_KEPT: Final = 50
"""Changes of a stream's size that stay, however old; the newest one says what its driver gets."""
CLAIMS_KEPT: Final = 50
"""Claims of a window series that stay, however old."""
TIMELINES_KEPT: Final = 50
"""Timelines of late times that stay, however old; only the newest one is read."""

File = tuple[str, datetime | None]
"""A file, relative to the home, and its time by the store's clock where the store tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """
    Facts about one epoch.

    :param deployment: ``None`` if only the folder of an epoch is left.
    :param ended_at: When its driver ended, or was proved or declared dead; else ``None``.
    :param failed: It ended other than by a request, by its own end, or for a newer epoch.
    :param planned: Queries whose plans it recorded.
    :param history: Files of its history without the newest ``CHUNKS_KEPT`` of each kind, each with
        its time by the store's clock; ``None`` if unknown.
    :param is_unreadable: Its record cannot be read, so its facts are unknown.
    """

    number: int
    deployment: int | None
    created_at: datetime | None
    ended_at: datetime | None = None
    failed: bool = False
    planned: frozenset[str] = frozenset()
    history: tuple[File, ...] = ()
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """Facts about one deployment; ``replay`` is its look-back in the input when it was made."""

    number: int
    checkpoint: str
    output: str
    created_at: datetime
    replay: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """A folder below ``checkpoints`` or ``output`` of a lane: its name there and its URI."""

    name: str
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFacts:
    """
    Facts about the claims of a window series.

    :param newest: Number of the newest claim.
    :param base: Number of the claim that it continues; 0 for none.
    :param files: Claims and outcomes, each with the number of its claim.
    """

    name: str
    newest: int
    base: int
    files: tuple[tuple[int, File], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFacts:
    """
    Facts about one lane.

    :param open_change: Its open change; else empty.
    :param change_ended_at: When its newest change ended, if any.
    :param sizes: Changes of its size, oldest first, without the newest ``SIZES_KEPT``.
    :param series: Window series; only of the blue lane, which keeps them for both.
    :param timelines: Timelines of late times, without the newest ``TIMELINES_KEPT``; as ``series``.
    :param epochs: Oldest first; ``deployments`` as well.
    :param restart_window: The longest window of its restart budgets.
    :param backed_up: Deployments that a backup names; ``None`` if the store could not be read.
    :param problems: Things that stay because they could not be read, a sentence each.
    """

    lane: str
    is_live: bool
    is_wanted: bool
    epochs: tuple[EpochFacts, ...] = ()
    deployments: tuple[DeploymentFacts, ...] = ()
    checkpoints: tuple[FolderFacts, ...] = ()
    outputs: tuple[FolderFacts, ...] = ()
    events: tuple[str, ...] = ()
    sizes: tuple[File, ...] = ()
    series: tuple[SeriesFacts, ...] = ()
    timelines: tuple[File, ...] = ()
    open_change: str = ""
    change_ended_at: datetime | None = None
    restart_window: timedelta = timedelta()
    backed_up: frozenset[int] | None = frozenset()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneItem:
    """
    A thing to remove.

    :param name: Number of an epoch, name of a folder, or the folder of files.
    :param paths: The files, relative to the home; none for an epoch and for a folder, which go whole.
    """

    what: RemovalKind
    lane: str
    name: str
    reason: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """Something old that stays, and why."""

    what: RemovalKind
    lane: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """
    The things to remove and to keep.

    :param period: How long things are kept, by the policy and by the stream's replay.
    :param blocked: Why nothing is removed; else empty.
    """

    period: timedelta
    blocked: str = ""
    remove: tuple[PruneItem, ...] = ()
    spared: tuple[Spared, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A removed thing, or in a dry run a removable one; ``size`` is in bytes."""

    what: RemovalKind
    lane: str
    name: str
    reason: str
    files: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """
    The result of a run.

    :param problems: Reasons why things were left, a sentence each; the next run tries again.
    """

    stream: str
    plan: PrunePlan
    removed: tuple[Removed, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def files(self) -> int:
        """Return how many files were removed."""
        return sum(one.files for one in self.removed)

    @property
    def size(self) -> int:
        """Return the bytes of these files."""
        return sum(one.size for one in self.removed)


def decide_pruning(
    lanes: Sequence[LaneFacts], used_elsewhere: Sequence[str], policy: PrunePolicy, now: datetime
) -> PrunePlan:
    """
    Return what of a stream goes, and what of the old things stays.

    :param lanes: All lanes of the stream.
    :param used_elsewhere: Checkpoints and outputs of the newest deployments of every other stream
        of the home.
    :param now: The earlier of this host's and the store's clock.
    """
    period = kept_for(lanes, policy)
    for lane in lanes:
        if lane.open_change:
            return PrunePlan(period=period, blocked=f"{lane.lane}: {lane.open_change}")
    if not any(lane.is_live for lane in lanes):
        return PrunePlan(period=period, blocked="No lane of the stream is known to be live.")
    before = now - period
    found: list[PruneItem | Spared] = []
    for lane in lanes:
        found += _epochs(lane, before, policy)
        found += _events(lane, before)
        found += _files(RemovalKind.SIZES, lane, "sizes", lane.sizes, before)
        found += _files(RemovalKind.FRESHNESS, lane, "freshness", lane.timelines, before)
        for series in lane.series:
            claims = removable_claims(series)
            found += _files(RemovalKind.WINDOWS, lane, series.name, claims, before)
    needed = list(_needed(lanes, used_elsewhere, before, policy))
    found += _checkpoints(lanes, needed)
    found += _outputs(lanes, needed, policy)
    return PrunePlan(
        period=period,
        remove=tuple(one for one in found if isinstance(one, PruneItem)),
        spared=tuple(one for one in found if isinstance(one, Spared)),
    )


def kept_for(lanes: Sequence[LaneFacts], policy: PrunePolicy) -> timedelta:
    """Return the period: the policy's, or the longest replay or window of a budget."""
    newest = [lane.deployments[-1] for lane in lanes if lane.deployments]
    return max(
        policy.keep,
        *(deployment.replay for deployment in newest),
        *(lane.restart_window for lane in lanes),
    )


def epochs_that_stay(lane: LaneFacts, before: datetime, policy: PrunePolicy) -> dict[int, str]:
    """
    Return the epochs that stay, by number, with the reason; others are removed.

    A recent epoch without another reason has an empty text.
    """
    why: dict[int, str] = {}
    numbers = [epoch.number for epoch in lane.epochs]
    for number, reason in _for_their_plans(lane, before):
        why[number] = reason
    for epoch, following in pairwise(lane.epochs):
        # A folder without a record has no time of its own; use its successor's.
        since = following.created_at
        if since is None:
            lacks = "cannot be read" if following.is_unreadable else "is missing"
            why.setdefault(epoch.number, f"the record of its successor {lacks}")
        elif since > before:
            why.setdefault(epoch.number, "")
        elif epoch.is_unreadable:
            why[epoch.number] = "its record cannot be read"
        elif epoch.ended_at is None and epoch.deployment is not None:
            why[epoch.number] = "its driver was not proved to have ended"
        elif epoch.ended_at is not None and epoch.ended_at > before:
            why[epoch.number] = "its driver ended within the period"
    failed = [epoch.number for epoch in lane.epochs if epoch.failed]
    if failed:
        why[failed[-1]] = "the last failure"
    for number in numbers[-policy.keep_epochs :]:
        why[number] = f"one of the newest {policy.keep_epochs}"
    return why


def removable_claims(series: SeriesFacts) -> list[File]:
    """Return the claims, and their outcomes, that no task reads any more, of any age."""
    first = series.newest - CLAIMS_KEPT + 1
    if series.base:
        first = min(first, series.base)
    return [file for number, file in series.files if number < first]


def deployments_in_use(lane: LaneFacts, before: datetime) -> dict[int, str]:
    """Return by number why a deployment of a lane is in use."""
    why: dict[int, str] = {}
    for deployment, following in pairwise(lane.deployments):
        if following.created_at > before:
            why[deployment.number] = "replaced within the period"
    if lane.deployments and (reason := _lane_in_use(lane, before)):
        why[lane.deployments[-1].number] = reason
    return why


def _lane_in_use(lane: LaneFacts, before: datetime) -> str:
    """Return why the newest deployment of a lane is in use; empty when the lane is retired."""
    newest = lane.epochs[-1] if lane.epochs else None
    if lane.is_live:
        return "the live lane runs on it"
    if lane.is_wanted:
        return "its lane is to run"
    if newest is not None and newest.ended_at is None:
        return "its driver was not proved to have ended"
    moments = [
        lane.change_ended_at,
        lane.deployments[-1].created_at,
        *((newest.ended_at, newest.created_at) if newest is not None else ()),
    ]
    if any(moment is not None and moment > before for moment in moments):
        return "its lane was retired within the period"
    return ""


def _for_their_plans(lane: LaneFacts, before: datetime) -> Iterator[tuple[int, str]]:
    used = deployments_in_use(lane, before)
    if lane.deployments:
        used.setdefault(lane.deployments[-1].number, "")  # a gate asks of the newest in any case
    seen: set[tuple[int, str]] = set()
    for epoch in reversed(lane.epochs):
        fresh = {(epoch.deployment, query) for query in epoch.planned} - seen
        if epoch.deployment in used and fresh:
            yield epoch.number, "the newest plans of a deployment in use"
        seen |= {(number, query) for number, query in fresh if number is not None}


def _epochs(lane: LaneFacts, before: datetime, policy: PrunePolicy) -> Iterator[PruneItem | Spared]:
    stays = epochs_that_stay(lane, before, policy)
    for epoch in lane.epochs:
        name = f"{epoch.number:06d}"
        if epoch.number not in stays:
            yield PruneItem(
                what=RemovalKind.EPOCH, lane=lane.lane, name=name, reason="older than the period"
            )
            continue
        if stays[epoch.number]:
            yield Spared(
                what=RemovalKind.EPOCH, lane=lane.lane, name=name, reason=stays[epoch.number]
            )
        yield from _files(RemovalKind.HISTORY, lane, name, epoch.history, before)


def _files(
    what: RemovalKind, lane: LaneFacts, name: str, files: Iterable[File], before: datetime
) -> Iterator[PruneItem]:
    old = tuple(path for path, moment in files if moment is not None and moment <= before)
    if old:
        reason = f"{len(old)} files older than the period"
        yield PruneItem(what=what, lane=lane.lane, name=name, reason=reason, paths=old)


def _events(lane: LaneFacts, before: datetime) -> Iterator[PruneItem]:
    # Names begin with the moment, so they are sorted by it: 20260301T120000.000000Z-1a2b3c4d.json
    limit = before.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    old = tuple(
        path
        for path in sorted(lane.events)[:-EVENTS_KEPT]
        if path.rpartition("/")[2].split("-")[0] <= limit
    )
    if old:
        yield PruneItem(
            what=RemovalKind.EVENTS,
            lane=lane.lane,
            name="events",
            reason=f"{len(old)} lines older than the period",
            paths=old,
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """A checkpoint or an output that stays, and why."""

    uri: str
    why: str


def _needed(
    lanes: Sequence[LaneFacts],
    used_elsewhere: Sequence[str],
    before: datetime,
    policy: PrunePolicy,
) -> Iterator[_Place]:
    """Return every checkpoint and output that stays, of either kind: they may be nested."""
    for uri in used_elsewhere:
        yield _Place(uri, "used by another stream")
    for lane in lanes:
        reasons = deployments_in_use(lane, before)
        for deployment in lane.deployments:
            name = f"deployment {deployment.number}"
            if deployment.number in reasons:
                why = f"{name}: {reasons[deployment.number]}"
                yield _Place(deployment.checkpoint, why)
                yield _Place(deployment.output, why)
            elif not policy.outputs:
                yield _Place(deployment.output, f"the output of {name}: outputs are kept")
            elif lane.backed_up is None:
                yield _Place(deployment.output, "the backups could not be read")
            elif deployment.number in lane.backed_up:
                yield _Place(deployment.output, f"a backup of {name}")


def _checkpoints(
    lanes: Sequence[LaneFacts], needed: Sequence[_Place]
) -> Iterator[PruneItem | Spared]:
    named = [one.checkpoint for lane in lanes for one in lane.deployments]
    for lane in lanes:
        for folder in lane.checkpoints:
            yield _judged(RemovalKind.CHECKPOINT, lane, folder, needed, named)


def _outputs(
    lanes: Sequence[LaneFacts], needed: Sequence[_Place], policy: PrunePolicy
) -> Iterator[PruneItem | Spared]:
    named = [one.output for lane in lanes for one in lane.deployments]
    for lane in lanes:
        for folder in lane.outputs:
            if policy.outputs:
                yield _judged(RemovalKind.OUTPUT, lane, folder, needed, named)
            else:
                yield Spared(
                    what=RemovalKind.OUTPUT,
                    lane=lane.lane,
                    name=folder.name,
                    reason="outputs are kept",
                )


def _judged(
    what: RemovalKind,
    lane: LaneFacts,
    folder: FolderFacts,
    needed: Iterable[_Place],
    named: Iterable[str],
) -> PruneItem | Spared:
    def spared(why: str) -> Spared:
        return Spared(what=what, lane=lane.lane, name=folder.name, reason=why)

    for place in needed:
        if _touches(folder, lane.lane, what, place.uri):
            return spared(place.why)
    if not any(_tail(folder, lane.lane, what) in f"{uri.rstrip('/')}/" for uri in named):
        return spared("no deployment names it")
    reason = "no deployment has used it within the period"
    return PruneItem(what=what, lane=lane.lane, name=folder.name, reason=reason)


def _touches(folder: FolderFacts, lane: str, what: RemovalKind, used: str) -> bool:
    """Return whether a place in use overlaps a folder."""
    # A home that was mounted or linked under another path has the same end: that is enough to stay.
    return overlap(folder.uri, used) or _tail(folder, lane, what) in f"{used.rstrip('/')}/"


def _tail(folder: FolderFacts, lane: str, what: RemovalKind) -> str:
    return f"/{lane}/{FOLDER_OF[what]}/{folder.name}/"


def describe(plan: PrunePlan) -> list[str]:
    """Return a line for each thing that goes, and for why nothing does."""
    lines = [f"{one.lane}: {one.what} {one.name}: {one.reason}" for one in plan.remove]
    if plan.blocked:
        lines = [f"Nothing is removed. {plan.blocked}"]
    return [f"Kept for {duration_text(plan.period)}.", *lines]
