"""
The last rows of the streams of all homes, for the fleet page.

A look at hundreds of streams takes longer than a page should wait. So a page gets the last rows at once, with their
age, and a new look begins. A look ends before the deadline; the streams that open pages show come first, then the streams
with the oldest rows. However many pages are open, looks take a bounded share of the server's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.exceptions import (
    HomeNotAllowed,
    HomeUnavailable,
    LookRefused,
    NotTheOwner,
    StreamingError,
    StreamRemoved,
)
from airflow_streaming.home.history import PartCache
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import LiveLaneCache
from airflow_streaming.hooks.home import StreamHomeHook, access
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.owner import MAY, DagAct, standing
from airflow_streaming.model.uris import is_local
from airflow_streaming.plugins.access.drivers import PageDrivers
from airflow_streaming.plugins.access.kept import Kept, check_owner
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.access.page_store import PageStore
from airflow_streaming.plugins.access.trust import check_home
from airflow_streaming.plugins.external import ExternalWatch, open_observer
from airflow_streaming.plugins.fleet_page import READING
from airflow_streaming.plugins.views import StreamWatch, head_of, now_utc, unreadable
from airflow_streaming.services.fleet_index import FOLDER as INDEX
from airflow_streaming.services.fleet_index import read_index
from airflow_streaming.services.fleet_rows import FRESH as ROW_AGE
from airflow_streaming.services.fleet_rows import FleetRow, believed
from airflow_streaming.settings import read_settings
from airflow_streaming.supervision.stream_status import Level

FRESH: Final = 4.0
"""Seconds for which a row is fresh enough for the fleet."""
FRESH_ROW: Final = ROW_AGE.total_seconds()
SHARE: Final = 40
"""
A home rests this many times as long as a look at all its streams took: at most 2.5 % of a core. A home that is
too large for one look rests as long as each look took: at most half a core.
"""
LEAST_REST: Final = 0.2
"""Seconds between two looks at a home that is too large for one look."""
SHOWN_FOR: Final = 12.0
"""Seconds for which a row counts as shown on a page, after the page asked for it; pages ask every 5 s."""
SLICE: Final = 0.4
"""Share of the deadline that one look may take before it leaves the rest to the next."""
FIRST_WAIT: Final = 1.0
"""Seconds that a page waits for a first look, and for the first look after a pause."""
PAUSE: Final = 15.0
"""Seconds without a request after which rows of an earlier look are no longer shown; pages ask every 5 s."""

ROWS_FROM: Final = 100
"""Streams of a home from which on rows that triggers have left save looks."""
ROWS_EVERY: Final = 15.0
"""Seconds between two reads of these rows."""

REMOVED: Final = "removed"
"""State of a stream that was removed."""


def open_checked(kept: Kept) -> Home:
    """
    Return a home, if the API server may open it.

    :raises HomeNotAllowed: it may not.
    :raises StreamingError: it cannot be opened now.
    """
    check_home(kept.home, written=kept.written, allowed=read_settings().homes)
    return StreamHomeHook(
        kept.home, kept.home_conn_id, looks_only=True, own_type_only=True, team=kept.dag.team
    ).get_conn()


def backups_of(kept: Kept) -> Callable[[], BackupStore] | None:
    """Return what opens the store of a stream's backups; ``None`` when the API server may not."""
    uri = kept.backup_store or default_store(kept.home)
    if kept.backup_store is not None:
        try:
            check_home(uri, written=kept.backup_written, allowed=read_settings().homes)
        except HomeNotAllowed:
            return None

    def open_it() -> BackupStore:
        return open_backup_store(
            uri,
            **access(uri, kept.home_conn_id, own_type_only=True, team=kept.dag.team),
            looks_only=True,
        )

    return open_it


@dataclass(slots=True)
class Lane:
    """A stream of a home, with the views of its lanes."""

    live: LiveLaneCache
    kept: Kept
    parts: PartCache
    views: dict[str, StreamWatch] = field(default_factory=dict)
    was_seen: bool = False
    """Its owner was found in the home once."""

    def view(self, name: str | None = None) -> StreamWatch:
        """
        Return the view of a lane; of the live one by default.

        :raises NotTheOwner: the stream belongs to another dag, or to none yet.
        :raises HomeUnavailable: records of the stream have disappeared.
        :raises StreamingError: the stream cannot be read.
        """
        lane = name or self.live()
        if lane not in self.views:
            self.views[lane] = StreamWatch(
                home=self.live.home(lane),
                parts=self.parts,
                open_backups=backups_of(self.kept),
                probe=PageDrivers(self.kept).probe,
                live=self.live,
            )
        found = self.views[lane]
        try:
            check_owner(found.home, self.kept)
        except NotTheOwner:
            if self.was_seen and found.home.owner() is None:
                raise HomeUnavailable(
                    f"Home {self.kept.home} no longer has the records of stream "
                    f"{self.kept.stream!r}. Perhaps it is not mounted, or was moved."
                ) from None
            raise
        self.was_seen = True
        return found


@dataclass(slots=True)
class _Seen:
    row: dict[str, Any] | None = None
    at: float = float("-inf")
    is_left: bool = False
    """A trigger has left the row."""


@dataclass(slots=True)
class HomeBoard:
    """The last rows of the streams of one home."""

    seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)
    lanes: dict[tuple[str, str], Lane] = field(default_factory=dict)
    others: dict[tuple[str, str], ExternalWatch] = field(default_factory=dict)
    store: PageStore | None = None
    shown: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a page last showed a row; of the rows of pages that were open lately."""
    problem: str = ""
    next_at: float = float("-inf")
    asked_at: float = float("-inf")
    since: float = float("-inf")
    """End of the latest pause. Rows from before it are read again before they are served."""
    task: asyncio.Task[None] | None = None
    rows_at: float = float("-inf")
    """When the rows that triggers have left were read."""
    is_large: bool = False
    """The home needs several looks for all its streams."""


class Boards:
    """
    The last rows of all homes.

    :param open_home: Opens a home that the API server may look at.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        looks: Looks,
        *,
        open_home: Callable[[Kept], Home] = open_checked,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.looks, self.parts = looks, PartCache()
        self._open, self._clock = open_home, clock
        self._boards: dict[tuple[str, str | None], HomeBoard] = {}

    async def rows(self, kept: Sequence[Kept]) -> list[dict[str, Any]]:
        """Return the last row of each stream; begin a new look if it is due."""
        by_home: dict[tuple[str, str | None], list[Kept]] = {}
        for one in kept:
            by_home.setdefault((one.home, one.home_conn_id), []).append(one)
        waits = [self._refresh(key, ones) for key, ones in by_home.items()]
        first = [task for task in waits if task is not None]
        if first:
            await asyncio.wait(first, timeout=FIRST_WAIT)
        return [self._row(one) for ones in by_home.values() for one in ones]

    def show(self, kept: Sequence[Kept]) -> None:
        """Note which rows a page shows: the next looks begin with them."""
        now = self._clock()
        for one in kept:
            board = self._boards.setdefault((one.home, one.home_conn_id), HomeBoard())
            board.shown[_key(one)] = now

    def seen_at(self, kept: Sequence[Kept]) -> str:
        """Return a text that changes with every look at any of the streams."""
        told = []
        for one in kept:
            board = self._boards.get((one.home, one.home_conn_id)) or HomeBoard()
            told.append(f"{_key(one)} {self._at(board, one)} {board.since} {board.problem}")
        return "\n".join(told)

    def oldest_at(self, kept: Sequence[Kept]) -> float:
        """Return when the stream with the oldest look was seen, on the clock of the boards."""
        nothing = HomeBoard()
        return min(
            (
                self._at(self._boards.get((one.home, one.home_conn_id), nothing), one)
                for one in kept
            ),
            default=0.0,
        )

    def lane(self, kept: Kept) -> Lane:
        """
        Return one stream, to be called in a look.

        :raises StreamingError: its home cannot be opened.
        """
        board = self._boards.setdefault((kept.home, kept.home_conn_id), HomeBoard())
        lane = board.lanes.get(_key(kept))
        if lane is None or lane.kept != kept:
            store = self._open(kept).store
            if not is_local(store.uri):
                store = board.store = board.store or PageStore(store)
            lane = Lane(LiveLaneCache(store, kept.stream, every=10.0), kept, self.parts)
            board.lanes[_key(kept)] = lane
        return lane

    def forget(self, kept: Kept) -> None:
        """Forget the listings of a home, because an act has just changed a stream."""
        board = self._boards.get((kept.home, kept.home_conn_id))
        if board is not None and board.store is not None:
            board.store.forget()

    def drop(self, kept: Kept) -> None:
        """Forget everything of a stream, because it was removed."""
        self.forget(kept)
        board = self._boards.get((kept.home, kept.home_conn_id))
        if board is not None:
            board.lanes.pop(_key(kept), None)
            board.seen.pop(_key(kept), None)

    def external(self, kept: Kept) -> ExternalWatch:
        """
        Return one external stream, to be called in a look.

        :raises StreamingError: its checkpoint cannot be opened.
        """
        board = self._boards.setdefault((kept.home, kept.home_conn_id), HomeBoard())
        watch = board.others.get(_key(kept))
        if watch is None or watch.kept != kept:
            watch = board.others[_key(kept)] = ExternalWatch(kept, open_observer(kept))
        return watch

    def _refresh(
        self, key: tuple[str, str | None], ones: Sequence[Kept]
    ) -> asyncio.Task[None] | None:
        """Begin a look if one is due; return it when it must come before the answer."""
        board, now = self._boards.setdefault(key, HomeBoard()), self._clock()
        if now - board.asked_at > PAUSE and now >= board.next_at:
            board.since = now
        board.asked_at = now
        is_new = any(_key(one) not in board.seen for one in ones)
        is_idle = board.task is None or board.task.done()
        if is_idle and (is_new or now >= board.next_at):
            board.task = asyncio.create_task(self._look(board, list(ones)))
        lacking = sum(not self._is_shown(board, one) for one in ones)
        # Many looks are needed for all streams of a large home; a page waits for the first of them.
        is_first = lacking == len(ones) or all(_key(one) not in board.seen for one in ones)
        waits = is_first if board.is_large else is_new or lacking > 0
        return board.task if waits else None

    async def _look(self, board: HomeBoard, ones: Sequence[Kept]) -> None:
        begun = self._clock()
        try:
            is_whole = await self.looks.look(ones[0].place, partial(self._slice, board, ones))
            board.problem, board.is_large = "", not is_whole
            took = self._clock() - begun
            rest = max(FRESH, SHARE * took) if is_whole else max(LEAST_REST, took)
        except LookRefused as err:
            board.problem, rest = str(err), float(err.retry_after)
        except (StreamingError, OSError) as err:
            board.problem, rest = str(err), FRESH
        board.next_at = self._clock() + min(rest, 60.0)

    def _slice(self, board: HomeBoard, ones: Sequence[Kept]) -> bool:
        """Look at streams until the time is up; tell whether it was enough for all."""
        begun, until = self._clock(), self._clock() + SLICE * self.looks.deadline
        self._take_rows(board, ones)
        shown = {key for key, at in [*board.shown.items()] if begun - at <= SHOWN_FOR}
        due = [one for one in ones if self._is_due(board, one, begun, is_shown=_key(one) in shown)]
        board.shown = {key: board.shown[key] for key in shown}
        for one in sorted(due, key=lambda one: (_key(one) not in shown, self._at(board, one))):
            if self._clock() > until:
                return False
            board.seen[_key(one)] = _Seen(self._look_at(one), self._clock())
        return True

    def _is_due(self, board: HomeBoard, kept: Kept, now: float, *, is_shown: bool) -> bool:
        seen = board.seen.get(_key(kept)) or _Seen()
        fresh = FRESH_ROW if seen.is_left and not is_shown else FRESH
        return now - seen.at >= fresh

    def _take_rows(self, board: HomeBoard, ones: Sequence[Kept]) -> None:
        """Take over the rows that triggers have left of a large home."""
        clock = self._clock()
        if len(ones) < ROWS_FROM or clock - board.rows_at < ROWS_EVERY:
            return
        board.rows_at = clock
        with suppress(StreamingError):  # each look tells the error
            lanes = [lane for one in ones for lane in (one.stream, other_lane(one.stream))]
            now = now_utc()
            rows = believed(read_index(self._open(ones[0]).store, lanes, now), lanes, now)
            for one in ones:
                row = row_for(one, rows)
                at = float("-inf") if row is None else clock - (now - row.seen_at).total_seconds()
                if row is not None and at > self._at(board, one):
                    board.seen[_key(one)] = _Seen(head_of(row), at, is_left=True)

    def _look_at(self, kept: Kept) -> dict[str, Any]:
        try:
            if kept.is_external:
                return self.external(kept).row(now_utc())
            return self.lane(kept).view().row(now_utc())
        except HomeNotAllowed as err:
            return unreadable(kept.stream, str(err), level=Level.WARN.value)
        except StreamRemoved as err:
            row = unreadable(kept.stream, str(err), level=Level.OFF.value)
            return {**row, "state": REMOVED, "rank": Level.OFF.rank}
        except HomeUnavailable as err:
            if not kept.is_external and self._is_away(kept):
                raise  # the last rows of all its streams stay, with their age
            return unreadable(kept.stream, str(err))
        except StreamingError as err:
            return unreadable(kept.stream, str(err))

    def _is_away(self, kept: Kept) -> bool:
        """Tell whether a home has no records at all, as a mount point does when nothing is mounted."""
        return {*self.lane(kept).live.base.store.names("")} <= {INDEX}

    def _at(self, board: HomeBoard, kept: Kept) -> float:
        seen = board.seen.get(_key(kept))
        return float("-inf") if seen is None else seen.at

    def _is_shown(self, board: HomeBoard, kept: Kept) -> bool:
        seen = board.seen.get(_key(kept)) or _Seen()
        is_fresh = seen.is_left and self._clock() - seen.at < FRESH_ROW
        # The rows of a home that does not answer stay, with their age.
        return seen.row is not None and (seen.at >= board.since or is_fresh or bool(board.problem))

    def _row(self, kept: Kept) -> dict[str, Any]:
        board = self._boards[kept.home, kept.home_conn_id]
        seen = board.seen.get(_key(kept)) or _Seen()
        is_shown = self._is_shown(board, kept)
        age = self._clock() - seen.at if is_shown else None
        row = seen.row if seen.row and is_shown else self._unseen(kept, board, seen)
        return {
            "dag": kept.dag.dag_id,
            "stream": kept.stream,
            "task": kept.task_id,
            "run": kept.run_id,
            "home": kept.home,
            "external": kept.is_external,
            "gone": kept.is_gone,
            **row,
            "age": None if age is None else round(age, 1),
            "away": board.problem[:600],
        }

    def _unseen(self, kept: Kept, board: HomeBoard, seen: _Seen) -> dict[str, Any]:
        if seen.row is None:
            row = unreadable(
                kept.stream, board.problem or "The first look has begun.", level="busy"
            )
            return {**row, "state": "away" if board.problem else READING}
        ago, state = duration_text(self._clock() - seen.at), seen.row["state"].replace("_", " ")
        reason = f"Last seen {ago} ago: {state}. A new look has begun."
        row = unreadable(kept.stream, reason, level="busy")
        return {**row, "state": READING, "rank": seen.row["rank"]}


def row_for(kept: Kept, rows: Mapping[str, FleetRow]) -> FleetRow | None:
    """Return the row of a stream's live lane, if its owner lets the dag see it."""
    if kept.is_external:
        return None
    lanes = (rows.get(lane) for lane in (kept.stream, other_lane(kept.stream)))
    row = next((row for row in lanes if row is not None and row.is_live), None)
    if row is None or row.owner is None or standing(row.owner, kept.dag) not in MAY[DagAct.CHANGE]:
        return None
    return row


def _key(kept: Kept) -> tuple[str, str]:
    return kept.dag.dag_id, kept.stream
