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
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    held = folder / HELD
    descriptor = os.open(held, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Scratch(folder=folder, held=held)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def sweep(parent: Path, prefix: str) -> list[Path]:
    """Remove the folders of killed owners; return those that were removed."""
    found = [path for path in parent.glob(f"{prefix}*") if path.is_dir() and _is_left(path)]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return found


def _is_left(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / HELD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        # Just being made, or somebody else's: not ours to remove.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
