"""Looking at a live checkpoint: what is to be copied of it, and whether that still holds after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.checkpoint.reading_ahead import Wanted
from airflow_streaming.checkpoint.sources import SINK_LOG, Source
from airflow_streaming.checkpoint.walk import walk
from airflow_streaming.core.checkpoint.listing import FileStat, Listing
from airflow_streaming.core.checkpoint.pin import Pin, choose_pin, is_changed, still_holds
from airflow_streaming.core.checkpoint.pin_sources import log_tail
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.core.foreign.tail import batch_of
from airflow_streaming.exceptions import CheckpointRefused


class Look(NamedTuple):
    """
    What one attempt copies.

    :param listing: The walk that it was chosen from; ``sink`` is that of the sink's log.
    :param files: In the order of the pin, the sink's log last.
    """

    pin: Pin
    listing: Listing
    sink: Listing | None
    files: tuple[Wanted, ...]


def look_at(source: Source) -> Look | Unready:
    """
    Choose what to copy now.

    :raises CheckpointRefused: see ``choose_pin``.
    :raises CheckpointError: there is no such folder.
    """
    folders = source.folders
    committed = _newest_commit(folders)
    listing = walk(folders)
    try:
        pin = choose_pin(listing, folders.read, at_least=committed)
    except CheckpointRefused as err:
        raise CheckpointRefused(f"{folders.uri} cannot be copied. {err}") from err
    if isinstance(pin, Unready):
        return pin
    files = [
        Wanted(folders, path, listing.stat(path) or FileStat(0), source.member(path))
        for path in pin.files
    ]
    if source.sink_log is None:
        return Look(pin, listing, None, tuple(files))
    sink = walk(source.sink_log)
    log = _sink_files(source, source.sink_log, sink, pin)
    return log if isinstance(log, Unready) else Look(pin, listing, sink, (*files, *log))


def moved(source: Source, look: Look) -> Unready | None:
    """Look again, after the copy, and tell what makes it torn."""
    log = source.sink_log
    if log is not None and look.sink is not None:
        now = walk(log)
        for file in look.files:
            if file.folders is log and is_changed(file.path, look.sink, now):
                path = f"{SINK_LOG}/{file.path}"
                return Unready(path, f"{path} was written anew.", is_moving=True)
    return still_holds(look.pin, look.listing, walk(source.folders))


def _sink_files(source: Source, log: Folders, listing: Listing, pin: Pin) -> list[Wanted] | Unready:
    tail = log_tail(listing, "", pin.batch)
    if isinstance(tail, Unready):
        return Unready(f"{SINK_LOG}/{tail.path}", f"The sink's log {log.uri}: {tail.why}")
    found = listing.files("")
    return [Wanted(log, path, found[path], source.member(f"{SINK_LOG}/{path}")) for path in tail]


def _newest_commit(folders: Folders) -> int | None:
    """Return the newest batch that is committed now, before the walk begins."""
    found: list[int] = []

    def choose(names: Iterable[str]) -> list[str]:
        found.extend(batch for batch in map(batch_of, names) if batch is not None)
        return []

    folders.entries("commits", choose)
    return max(found, default=None)
