"""
Which Spark may drill a backup, and how its copy is cut back by one batch.

If the backup does not name its driver's Spark, the checkpoint shows the oldest possible release.
Releases with the same formats cannot be distinguished, so every release up to the next format
change is accepted.

Spark runs a planned and uncommitted batch with exactly the planned offsets. If the plan after the
pinned batch is in the copy, that batch runs and no cut is needed. Otherwise the newest batch with
input is made uncommitted: the commits from it on are removed, the plans after it, and every state
file that Spark could mistake for the state before it.

A batch without input, as Spark runs them to move the watermark, is the last choice. Spark plans it
over an empty relation, with other nullabilities than the query has, so that its own comparison of
state schemas would call a sound checkpoint incompatible (measured: inner joins, Spark 3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.backup.pin import ToldIds
from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.read.journal import has_input, recent_with_input
from airflow_streaming.checkpoints.state.chain import Missing
from airflow_streaming.checkpoints.state.stores import StateIds, stores, versions_beyond
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.listing import Listing, Read
from airflow_streaming.model.spark.logs import parse_commit_log

Minor = tuple[int, int]
"""Major and minor number of a Spark version."""
_NEW_THINGS: Final[tuple[Minor, ...]] = ((4, 0), (4, 2), (4, 3))
"""Releases whose checkpoints show that no older one wrote them."""
_FIRST: Final[Minor] = (0, 0)
_LAST: Final[Minor] = (99, 0)

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a commit; one of format 2 names every partition of every store."""


def choose_spark(backup: Backup, versions: Mapping[str, str], *, newer: bool) -> str | None:
    """
    Return the name of the runtime to drill with, ``None`` when none of them fits.

    :param versions: Spark version of each runtime by its name.
    :param newer: Take the oldest newer one where none is of the right version.
    """
    known = {name: parse_spark_version(version)[:2] for name, version in versions.items()}
    oldest, end = wanted_spark(backup)
    right = {name: minor for name, minor in known.items() if oldest <= minor < end}
    if right:
        return max(sorted(right), key=lambda name: right[name])
    later = {name: minor for name, minor in known.items() if minor >= end}
    if newer and later:
        return min(sorted(later), key=lambda name: later[name])
    return None


def wanted_spark(backup: Backup) -> tuple[Minor, Minor]:
    """Return the first minor version that fits a backup, and the first after it that does not."""
    if backup.spark_version:
        major, minor, _ = parse_spark_version(backup.spark_version)
        return (major, minor), (major, minor + 1)
    told = [parse_spark_version(q.spark_at_least)[:2] for q in backup.queries if q.spark_at_least]
    if not told:
        return _FIRST, _LAST
    oldest = max(told)
    return oldest, next((minor for minor in _NEW_THINGS if minor > oldest), _LAST)


def describe_spark(backup: Backup) -> str:
    """Say which Spark a backup wants, in words."""
    if backup.spark_version:
        return f"Spark {backup.spark_version}, which wrote it"
    (major, minor), end = wanted_spark(backup)
    if (major, minor) == _FIRST:
        return "any Spark, as nothing tells which one wrote it"
    if end == _LAST:
        return f"Spark {major}.{minor} or newer"
    return f"Spark {major}.{minor} or newer, before {end[0]}.{end[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """
    How to make a batch run.

    :param runs: The batch that Spark will run; ``None`` if a batch needs new input.
    :param remove: Files to delete first.
    :param why_not: Why no batch can run again.
    """

    runs: int | None
    remove: tuple[str, ...] = ()
    has_input: bool = True
    why_not: str = ""


def plan_cut(listing: Listing, read: Read, batch: int, *, needs_input: bool = False) -> Cut:
    """
    Return how to make a batch run on a copy whose newest commit is ``batch``.

    :param needs_input: Choose only batches with input; a planned one without input is removed. The
        copy then continues with new input, for which Spark compares all schemas.
    :raises HomeUnavailable: The copy cannot be read.
    """
    if listing.stat(f"offsets/{batch + 1}") is not None:
        reads = has_input(read, batch + 1)
        if reads or not needs_input:
            return Cut(runs=batch + 1, has_input=reads)
    reasons = []
    for candidate in recent_with_input(read, batch):
        why_not = _why_not(listing, read, candidate)
        if not why_not:
            return Cut(runs=candidate, remove=_removed(listing, candidate))
        reasons.append(why_not)
    if needs_input:
        reason = next(iter(reasons), "its last batches read nothing.")
        return _without_plan(listing, batch, reason)
    if why_not := _why_not(listing, read, batch):
        return Cut(runs=None, why_not=why_not)
    return Cut(runs=batch, remove=_removed(listing, batch), has_input=False)


def _without_plan(listing: Listing, batch: int, why_not: str) -> Cut:
    planned = [f"offsets/{number}" for number in _numbers(listing, "offsets") if number > batch]
    checksums = [checksum for path in planned if listing.stat(checksum := _hidden(path))]
    return Cut(runs=None, remove=(*planned, *checksums), why_not=why_not)


def state_ids(read: Read, batch: int) -> StateIds:
    """
    Return the unique ids of the state that a batch left behind; none in format 1.

    :raises RecordError: its commit is not what Spark writes.
    """
    data = read(f"commits/{batch}", _LIMIT)
    return {} if data is None else parse_commit_log(data).state_ids


def _why_not(listing: Listing, read: Read, batch: int) -> str:
    if listing.stat(f"offsets/{batch}") is None:
        return f"the copy has no plan of batch {batch}."
    if batch == 0:
        return ""
    if listing.stat(f"offsets/{batch - 1}") is None:
        return f"the copy has no plan of batch {batch - 1}."
    try:
        told = ToldIds(listing, read, {batch - 1: state_ids(read, batch - 1)})
        for store in stores(listing):
            found = told.chain(store, batch)
            if isinstance(found, Missing):
                return f"the copy holds no state from before batch {batch}: {found.why}"
    except RecordError as err:
        return f"commits/{batch - 1} cannot be read: {err}"
    return ""


def _removed(listing: Listing, batch: int) -> tuple[str, ...]:
    removed = [f"commits/{number}" for number in _numbers(listing, "commits") if number >= batch]
    removed += [f"offsets/{number}" for number in _numbers(listing, "offsets") if number > batch]
    removed += versions_beyond(listing, batch)
    if batch == 0:
        # Spark 4.1 and newer want the first batch to find no state folder at all.
        removed += [path for path, _ in listing.paths() if path.startswith("state/")]
    checksums = [checksum for path in removed if listing.stat(checksum := _hidden(path))]
    return tuple(dict.fromkeys([*removed, *checksums]))


def _numbers(listing: Listing, folder: str) -> list[int]:
    return sorted(int(name) for name in listing.files(folder) if name.isdecimal())


def _hidden(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"
