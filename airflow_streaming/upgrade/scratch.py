"""
A scratch folder that is removed again, at the latest by whoever comes next.

Its owner keeps a file in it locked. The system gives a lock up with the process, however that
ended, so that a folder whose file can be locked is nobody's any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HELD: Final = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """
    A folder that is held.

    :param held: The file that its owner keeps locked.
    """

    folder: Path
    held: Path


@contextlib.contextmanager
def scratch_folder(parent: Path | None, prefix: str) -> Iterator[Scratch]:
    """
    Make a private folder, and remove it when the block is left, with whatever is in it.

    Folders of the same prefix beside it whose owners were killed are removed first.

    :param parent: A local folder; default: the system's folder for temporary files.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(place, prefix)
    own, descriptor = _made(place, prefix)
    try:
        yield own
    finally:
        shutil.rmtree(own.folder, ignore_errors=True)
        os.close(descriptor)


def sweep(parent: Path, prefix: str) -> list[Path]:
    """Remove the folders of killed owners; return those that were removed."""
    return [path for path in parent.glob(f"{prefix}*") if path.is_dir() and _is_removed(path)]


def _made(place: Path, prefix: str) -> tuple[Scratch, int]:
    """Return a folder of our own and the descriptor that holds it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        held = folder / HELD
        try:
            descriptor = os.open(held, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except FileNotFoundError:
            continue
        if held.exists():
            return Scratch(folder=folder, held=held), descriptor
        # Somebody who swept was faster with the lock, took it for left behind, and has removed it.
        os.close(descriptor)


def _is_removed(folder: Path) -> bool:
    """Remove a folder that nobody holds; its lock is kept meanwhile, for its maker may want it."""
    try:
        descriptor = os.open(folder / HELD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        # Just being made, or somebody else's: not ours to remove.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
