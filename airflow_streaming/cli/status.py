"""
The commands that look: list, status, live.

The task that keeps a stream alive times its silence by watching. A user at a terminal has no time for
that, so this look compares the heartbeat's time with the clock here, and when that looks bad it
watches for a few seconds before it says so, and says that it does. Nothing is ever decided on this
look.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow_streaming.cli.common import OK, PROBLEM, add_json, add_select, positive
from airflow_streaming.cli.output import answer, notice, show, show_json
from airflow_streaming.exceptions import AccessDenied, RecordError, SpecError
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.codec import encode
from airflow_streaming.model.durations import age_of, duration_text
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import Color, base_of, color_of, is_lane, other_lane
from airflow_streaming.model.observation import Observation, ProcessState
from airflow_streaming.model.products.freshness import FreshnessFigures
from airflow_streaming.model.products.live_output import LiveOutput
from airflow_streaming.model.records.control import ChangeInProgress
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.records.size_change import SizeChange
from airflow_streaming.model.status import SizeChangeEnd, Status
from airflow_streaming.model.uris import lies_in
from airflow_streaming.reports.streams import (
    StreamRow,
    StreamView,
    live_report,
    stream_report,
    streams_report,
)
from airflow_streaming.services.fleet_index import FOLDER as INDEX
from airflow_streaming.services.fleet_index import read_index
from airflow_streaming.services.fleet_rows import FRESH, FleetRow, believed
from airflow_streaming.services.status_reader import read_status
from airflow_streaming.services.streams import Probe, look_once
from airflow_streaming.storage.one_look import Listing, OneLook, look_at_each
from airflow_streaming.supervision.epoch_figures import Figures
from airflow_streaming.supervision.standby import summary
from airflow_streaming.supervision.standby_observer import view_standby
from airflow_streaming.supervision.stream_status import StreamStanding

POLL_SECONDS: Final = 0.5
WATCH_SECONDS: Final = 10.0
"""A living driver writes its heartbeat more often than this."""


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``list``."""
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="show at most N streams, by name"
    )
    parser.add_argument("--after", default="", metavar="STREAM", help="only those after this name")
    add_select(parser, "only those that match")
    add_fresh(parser)
    add_json(parser)


def add_fresh(parser: argparse.ArgumentParser) -> None:
    """Add the option that ignores the rows of triggers."""
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="look at each stream (default: use rows of triggers that are at most "
        f"{FRESH.seconds} s old)",
    )


def seen_rows(home: Home, folders: Listing, *, fresh: bool) -> dict[str, FleetRow]:
    """Return the rows that need no look, by lane."""
    if fresh or INDEX not in folders:
        return {}
    lanes = [*filter(is_lane, folders.names)]
    now = datetime.now(UTC)
    return believed(read_index(home.store, lanes, now), lanes, now)


def list_streams(home: Home, probe: Probe, arguments: argparse.Namespace) -> int:
    """Print the streams of a page; an unreadable stream is a problem."""
    folders, as_json = Listing(home.store.names("")), arguments.json
    seen = seen_rows(home, folders, fresh=arguments.fresh)
    after = [name for name in folders.names if name > arguments.after]
    looks = {name: OneLook(home.store, folders) for name in after if name not in seen}
    names = sorted([*home.streams([*looks], looks), *(name for name in after if name in seen)])
    if arguments.select is not None:
        names = _selected(home, names, seen, arguments.select, probe)
    page = names[: arguments.limit]

    def look(name: str) -> StreamRow | str:
        stream = StreamHome(looks.pop(name), name)
        try:
            return StreamRow.of(view_stream(stream, probe, patience=0, events=0))
        except (RecordError, SpecError, AccessDenied) as err:
            return str(err)

    looked = [name for name in page if name not in seen]
    found: dict[str, StreamRow | str] = dict(
        zip(looked, look_at_each(home.store, look, looked, may_fork=True), strict=True)
    )
    for name in page:
        if name in seen:
            found[name] = _row_of(seen[name], has_lanes=_has_two_lanes(name, folders))
    found = {name: found[name] for name in page}
    rows = [one for one in found.values() if isinstance(one, StreamRow)]
    unread = {name: why for name, why in found.items() if isinstance(why, str)}
    following = page[-1] if len(page) < len(names) else None
    if as_json:
        values = {"home": home.store.uri, "streams": [one.to_dict() for one in rows]}
        show_json({**values, "unreadable": unread, "after": following}, sort_keys=True)
    else:
        asked = " ".join(_chosen_by(arguments))
        show(streams_report(rows, home.store.uri, unread, datetime.now(UTC), asked))
        if following is not None:
            notice(f"{len(names) - len(page)} more: airflow-streaming list --after {following}")
    return PROBLEM if unread else OK


def _chosen_by(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.select is not None:
        yield f"--select {arguments.select}"
    if arguments.after:
        yield f"--after {arguments.after}"


def _selected(
    home: Home, names: list[str], seen: dict[str, FleetRow], text: str, probe: Probe
) -> list[str]:
    from airflow_streaming.services.selection import selected  # a list of all streams does without

    def look(stream: StreamHome) -> StreamStanding:
        return standing_of(stream, probe)

    return sorted(selected(home, names, parse_selector(text), look, seen))


def standing_of(stream: StreamHome, probe: Probe) -> StreamStanding:
    """Look at a stream once and return where it stands."""
    return view_stream(stream, probe, patience=0, events=0).status.standing


def _row_of(row: FleetRow, *, has_lanes: bool) -> StreamRow:
    """Return the row that a trigger has left; a stream with an open change has none."""
    return StreamRow(
        stream=row.lane,
        has_lanes=has_lanes,
        is_live=row.is_live,
        is_all_right=row.level.is_all_right,
        level=row.level,
        word=row.word,
        reason=row.reason,
        remedy=row.remedy,
        since=row.since,
        desired=row.desired.value,
        circuit="open" if row.circuit_is_open else "closed",
        deployment=row.deployment,
        epoch=row.epoch,
        change="",
        incidents=row.incidents,
        failures_in_a_row=row.failures_in_a_row,
        restarts_24h=row.restarts_24h,
        seen_at=row.seen_at,
    )


def _has_two_lanes(lane: str, folders: Listing) -> bool:
    return color_of(lane) is Color.GREEN or other_lane(lane) in folders


def show_status(stream: StreamHome, probe: Probe, *, as_json: bool) -> int:
    """Print one stream; a stream that is not well is a problem."""
    found = view_stream(stream, probe, patience=WATCH_SECONDS)
    answer(stream_report(found), found.to_dict(), as_json=as_json, sort_keys=True)
    return OK if found.status.is_all_right else PROBLEM


def view_stream(
    home: StreamHome,
    probe: Probe,
    *,
    patience: float,
    events: int = 5,
) -> StreamView:
    """
    Look at a stream.

    :param patience: Seconds to watch for a sign of life from a driver that seems silent.
    :param events: Number of events to read; 0 reads none.
    """
    streams = Home(home.store)

    def watch(epoch: Epoch, rules: HealthRules) -> Observation:
        return observe(home, epoch, probe, patience=patience, rules=rules)

    is_live = live_lane(streams, home.name) == home.name
    status = read_status(home, watch, now=lambda: datetime.now(UTC), is_live=is_live)
    size = _size(home) if events else None
    return StreamView(
        status=status,
        events=tuple(home.events(events)) if events else (),
        has_lanes=_has_lanes(streams, home.name),
        change="" if status.unread else _change(home, status.change),
        standby=_standby(home, probe, status.seen),
        freshness=_freshness(streams, home) if events else None,
        size=size,
        size_end=None if size is None else _size_end(home, size.number),
    )


def _size(home: StreamHome) -> SizeChange | None:
    with contextlib.suppress(RecordError):
        return home.newest_size()
    return None


def _size_end(home: StreamHome, number: int) -> SizeChangeEnd | None:
    with contextlib.suppress(RecordError):
        return home.size_end(number)
    return None


def _freshness(streams: Home, home: StreamHome) -> FreshnessFigures | None:
    """Return the figures of the stream's objective; a list of streams does without."""
    objective = home.supervision().freshness
    if objective is None:
        return None
    from airflow_streaming.services.freshness import (
        read_freshness,
    )  # streams without one do without

    try:
        found = read_freshness(streams, base_of(home.name), objective, datetime.now(UTC))
    except RecordError:
        return None
    return None if found is None else found.figures


def _standby(home: StreamHome, probe: Probe, seen: Observation | None) -> str:
    now = datetime.now(UTC)

    def silence(_: int, status: Status | None) -> timedelta:
        return age_of(status.at, now) if status is not None else timedelta(0)

    live = seen.epoch if seen is not None else None
    try:
        return summary(view_standby(home.standbys(), probe, live, silence), now)
    except RecordError as err:
        # A problem of the standby does not hide the stream.
        return f"unreadable: {err}"


def _has_lanes(streams: Home, lane: str) -> bool:
    is_green = color_of(lane) is Color.GREEN
    return is_green or streams.stream(other_lane(lane)).newest_deployment() is not None


def _change(home: StreamHome, change: ChangeInProgress | None) -> str:
    if change is not None:
        return str(change)
    unfinished = home.unfinished_change()
    if unfinished is None:
        return ""
    from airflow_streaming.changes.restore.switch import words  # not for every look

    return f"{unfinished.number}, not finished: {words(unfinished)}"


def observe(
    home: StreamHome,
    epoch: Epoch,
    probe: Probe,
    *,
    patience: float = 0.0,
    rules: HealthRules = HealthRules(),
) -> Observation:
    """Observe an epoch; a driver that seems silent is watched for some seconds."""
    first = look_once(home, epoch, probe)
    if first.status is not None and rules.rules:
        figures = Figures(home, epoch.number, rules)
        first = replace(first, findings=figures.findings(first.status, time.monotonic()))
    if first.is_dead or first.silent_for < rules.hang_after:
        return replace(first, silent_for=timedelta(0))
    if patience > 0:
        notice(_awaited(home, first, patience))
    started = time.monotonic()
    second = first
    while time.monotonic() - started < patience:
        time.sleep(POLL_SECONDS)
        second = look_once(home, epoch, probe)
        if second.is_dead or second.silent_for < first.silent_for:
            return replace(second, silent_for=timedelta(0))
    return replace(second, cpu_in_silence=_cpu(first, second, time.monotonic() - started))


def _awaited(home: StreamHome, seen: Observation, patience: float) -> str:
    """Return the reason of a wait, so that the command does not seem stuck."""
    unseen = seen.process.state is ProcessState.UNSEEN
    driver = f"its driver cannot be seen from here ({seen.process.detail})" if unseen else ""
    age = duration_text(round(seen.silent_for.total_seconds()))
    last = f"its last heartbeat is {age} old" if seen.status else f"it has no heartbeat since {age}"
    return (
        f"Epoch {seen.epoch.number} of {home.name}: {' and '.join(filter(None, (driver, last)))}. "
        f"Waiting up to {duration_text(patience)} for a new heartbeat."
    )


def _cpu(first: Observation, second: Observation, watched: float) -> float | None:
    """Stretch the CPU time used while watching over the whole silence."""
    before, after = first.process.cpu_seconds, second.process.cpu_seconds
    if before is None or after is None or watched < POLL_SECONDS:
        return None
    return (after - before) / watched * second.silent_for.total_seconds()


def add_live_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``live``."""
    parser.add_argument("stream", metavar="STREAM", help="name of the stream")
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument(
        "--output",
        action="store_true",
        help="print only the output's URI, or its topics and tables",
    )


def show_live(home: Home, arguments: argparse.Namespace) -> int:
    """Print the live lane."""
    if arguments.output:
        found = live(home, arguments.stream)
        is_folder = not found.places or any(lies_in_output(found, one) for one in found.places)
        print(found.output if is_folder else "\n".join(found.places))
        return OK
    found = live(home, arguments.stream, history=True)
    answer(live_report(found), to_dict(found), as_json=arguments.json, sort_keys=True)
    return OK


def lies_in_output(found: LiveOutput, place: str) -> bool:
    return "/" in place and " " not in place and lies_in(place, found.output)


def to_dict(found: LiveOutput) -> dict[str, Any]:
    """Return the live lane for ``--json``, with earlier live periods, the oldest first."""
    values: dict[str, Any] = encode(found)
    history = [{**encode(period), "color": period.color.value} for period in found.history]
    return {**values, "color": found.color.value, "history": history}
