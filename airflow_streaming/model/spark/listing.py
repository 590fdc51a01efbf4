"""
The content of a checkpoint: every folder and file, as one walk found them.

A walk of a live checkpoint is not a snapshot in time. Code that decides from a listing selects
files, reads them, and lists again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Read = Callable[[str, int], bytes | None]
"""
Reads one file of the checkpoint, by its path and its maximum size in bytes.

Returns ``None`` for a missing file; raises ``RecordError`` when it is larger or not a file, and
``HomeUnavailable`` when the store cannot be reached.
"""
MAX_DEPTH: Final = 12
"""The deepest file of Spark's lies seven folders down."""
RESTORE_MARKER: Final = "_airflow_streaming_restore.json"
"""Lies at the root while a restore into this checkpoint is under way; removed last."""


class FileStat(NamedTuple):
    """
    A walk's data about one file.

    :param size: Bytes.
    :param stamp: Differs whenever the file was rewritten: the store's own tag, or its times and its
        number on this machine. Empty where the store has no such data.
    """

    size: int
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """
    Every file of a checkpoint, by folder; hidden and temporary ones too.

    :param folders: From the path of each folder, the root being ``""``, to its files by name.
    :param strange: Paths of entries other than files and folders, each with its kind, e.g.
        ``symbolic link``. They were neither followed nor opened.
    """

    folders: Mapping[str, Mapping[str, FileStat]]
    strange: Mapping[str, str] = field(default_factory=dict)
    _children: dict[str, list[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        children: dict[str, list[str]] = {}
        for path in self.folders:
            if path:
                parent, _, name = path.rpartition("/")
                children.setdefault(parent, []).append(name)
        object.__setattr__(self, "_children", children)

    def files(self, folder: str) -> Mapping[str, FileStat]:
        """Return a folder's files by name; empty for a missing folder."""
        return self.folders.get(folder, {})

    def subfolders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""
        return sorted(self._children.get(folder, ()))

    def stat(self, path: str) -> FileStat | None:
        """Return the data about one file; ``None`` for a missing file."""
        folder, _, name = path.rpartition("/")
        files = self.folders.get(folder)
        return None if files is None else files.get(name)

    def paths(self) -> Iterator[tuple[str, FileStat]]:
        for folder, files in self.folders.items():
            prefix = f"{folder}/" if folder else ""
            for name, stat in files.items():
                yield prefix + name, stat


def is_hidden(name: str) -> bool:
    """Tell whether Hadoop hides a file: its own checksums, and files still being written."""
    return name.startswith(".")
