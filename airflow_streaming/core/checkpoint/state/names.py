"""
Names of state files.

A store's folder holds one file a version or several: the changes since the version before, the
whole state of that version, or both. State checkpoint format 2 adds a unique id to the name, so
that two attempts at one version never share a file.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple


class StateForm(StrEnum):
    """What a state file holds."""

    DELTA = "delta"
    """Changes since the version before, of the HDFS-backed store."""
    SNAPSHOT = "snapshot"
    """The whole state, of the HDFS-backed store."""
    CHANGELOG = "changelog"
    """Changes since the version before, of RocksDB."""
    ZIP = "zip"
    """The whole state of RocksDB: its small files and the names of its SST files."""


class StateFile(NamedTuple):
    """
    One state file by its name.

    :param version: The version it leads to; batch N leaves version N + 1 behind.
    :param unique_id: The attempt that wrote it, in state checkpoint format 2; else ``None``.
    :param name: Its name in the store's folder.
    """

    version: int
    unique_id: str | None
    form: StateForm
    name: str


SIDECAR: Final = ".crc"
"""What the name of a visible checksum file adds to that of its file."""

_NAME: Final = re.compile(
    r"([0-9]{1,18})(?:_([0-9A-Za-z-]{1,64}))?\.(delta|snapshot|changelog|zip)", re.ASCII
)
_FORMS: Final = {form.value: form for form in StateForm}


def parse_name(name: str) -> StateFile | None:
    """Return what a name says; ``None`` when it is not the name of a state file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version, unique_id, form = match.groups()
    return StateFile(int(version), unique_id, _FORMS[form], name)
