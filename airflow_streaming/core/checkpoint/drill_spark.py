"""
Which Spark may drill a backup: the one that wrote it, else one that writes the same formats.

Where the backup does not say which Spark its driver ran on, the checkpoint itself tells the oldest
that can have written it. Releases that write the same things cannot be told apart, so all of them
up to the next that writes something new will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.conf import parse_spark_version

Minor = tuple[int, int]
"""Major and minor number of a Spark version."""

_NEW_THINGS: Final[tuple[Minor, ...]] = ((4, 0), (4, 2), (4, 3))
"""Releases whose checkpoints show that no older one wrote them."""


_FIRST: Final[Minor] = (0, 0)
_LAST: Final[Minor] = (99, 0)


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
