"""
Scratch folders of short Spark jobs: private, held while in use, and swept after their owner's death.

A folder holds the configuration of a stream, secrets included. Its owner keeps a file in it locked. The
system gives a lock up with the process, however that ended, so a folder whose file can be locked has no
owner any more. No process id is compared, which another process may have by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_streaming.exceptions import LaunchError

HELD: Final = "held"
_PRIVATE: Final = 0o700
_MOST_NAMES: Final = 10


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
    Make a private folder, and remove it with its content when the block is left.

    Folders of killed owners beside it are removed first: with the same prefix, or with any prefix in
    the user's own folder.

    :param parent: A local folder; default: the user's own one, see ``user_folder``.
    :raises LaunchError: the user's own folder cannot be made.
    """
    place = user_folder() if parent is None else parent
    sweep(place, prefix if parent is not None else "")
    own, descriptor = _made(place, prefix)
    try:
        yield own
    finally:
        shutil.rmtree(own.folder, ignore_errors=True)
        os.close(descriptor)


def user_folder(temporary: Path | None = None) -> Path:
    """
    Return this user's own folder for the scratch of all jobs, made with mode 0700.

    Another user who takes its name first only has the next name used.

    :param temporary: Default: the system's folder for temporary files.
    :raises LaunchError: no folder can be made there.
    """
    place = Path(tempfile.gettempdir()) if temporary is None else temporary
    name = f"airflow-streaming-{os.geteuid()}"
    for path in (place / (f"{name}-{n}" if n else name) for n in range(_MOST_NAMES)):
        try:
            path.mkdir(mode=_PRIVATE, exist_ok=True)
            found = path.lstat()
        except FileExistsError:
            continue
        except OSError as err:
            raise LaunchError(
                f"No scratch folder can be made in {place}: {err.strerror or err}. Check that it is "
                "there, has room and is writable, or name another one with TMPDIR."
            ) from err
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            if stat.S_IMODE(found.st_mode) != _PRIVATE:
                path.chmod(_PRIVATE)
            return path
    raise LaunchError(
        f"{place} has {_MOST_NAMES} folders or files named {name}* that belong to others. Have them removed, "
        "or name another folder with TMPDIR."
    )


def sweep(parent: Path, prefix: str) -> list[Path]:
    """Remove the folders of killed owners; return the removed ones."""
    return [path for path in parent.glob(f"{prefix}*") if _is_folder(path) and _is_removed(path)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


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
        # A process that swept was faster with the lock, and has removed the folder as left behind.
        os.close(descriptor)


def _is_removed(folder: Path) -> bool:
    """Remove a folder that no process holds; its lock is kept meanwhile, for its maker may want it."""
    try:
        descriptor = os.open(folder / HELD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        # Just being made, or another process's: not ours to remove.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
