"""A disk on which the n-th change fails, or at whose n-th change the process is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest


class Killed(BaseException):
    """The process is no more: nothing catches this, nothing is done after it."""


class Fault(StrEnum):
    """What happens at the n-th change."""

    EIO = "EIO"
    ENOSPC = "ENOSPC"
    EACCES = "EACCES"
    ETIMEDOUT = "ETIMEDOUT"
    LOST = "answer lost"
    """The change is made, and the caller is told ETIMEDOUT."""
    BEFORE = "killed before"
    AFTER = "killed after"

    @property
    def is_kill(self) -> bool:
        return self in (Fault.BEFORE, Fault.AFTER)


NEVER: Final = 10**9
_TEMPORARY: Final = re.compile(r"\.(.{1,200})\.[0-9a-f]{32}\.tmp")
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_BY_PATH: Final = ("mkdir", "rmdir", "unlink", "remove", "chmod")
_OF_TWO: Final = ("link", "rename", "replace", "symlink")


class FaultyDisk:
    """
    Counts what changes files below some folders, and fails one of these changes.

    It stands where the system is called, so it sees the writes of every adapter, whoever makes them.

    :param roots: The folders; what lies elsewhere is left alone.
    :param at: The change that fails, from 1.
    """

    def __init__(self, *roots: Path, at: int = NEVER, fault: Fault = Fault.EIO) -> None:
        self._roots = tuple(os.path.realpath(root) for root in roots)
        self._at, self._fault = at, fault
        self._lock = threading.RLock()
        self._resting = 0
        self.is_dead = False
        self.changes: list[tuple[str, str]] = []
        """Name of the call and the file, for each change so far."""

    @property
    def has_struck(self) -> bool:
        return len(self.changes) >= self._at

    @property
    def struck(self) -> tuple[str, str]:
        """The call that failed, and the file as a user knows it."""
        call, path = self.changes[self._at - 1]
        folder, _, name = path.rpartition("/")
        hidden = _TEMPORARY.fullmatch(name)
        return call, f"{folder}/{hidden[1]}" if hidden else path

    @contextlib.contextmanager
    def inserted(self) -> Iterator[FaultyDisk]:
        """Let the process use this disk."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _BY_PATH:
                patch.setattr(os, name, self._by_path(name, getattr(os, name)))
            for name in _OF_TWO:
                patch.setattr(os, name, self._of_two(name, getattr(os, name)))
            patch.setattr(os, "open", self._opening(os.open))
            patch.setattr(os, "fsync", self._by_path("fsync", lambda handle: None))
            yield self

    def resting(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """Return an act of another process, whose disk is sound."""

        def apart(*args: Any, **kwargs: Any) -> Any:
            self._resting += 1
            try:
                return act(*args, **kwargs)
            finally:
                self._resting -= 1

        return apart

    def counting(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        """Return an act that is no change of a file, and around which the process may be killed."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._resting:
                return act(*args, **kwargs)
            return self._do(name, "", lambda: act(*args, **kwargs))

        return counted

    def _by_path(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(path: Any, *args: Any, **kwargs: Any) -> Any:
            place = self._place(path, kwargs.get("dir_fd"))
            if place is None:
                return act(path, *args, **kwargs)
            return self._do(name, place, lambda: act(path, *args, **kwargs))

        return faulty

    def _of_two(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(source: Any, target: Any, **kwargs: Any) -> Any:
            place = self._place(target, kwargs.get("dst_dir_fd"))
            if place is None:
                return act(source, target, **kwargs)
            return self._do(name, place, lambda: act(source, target, **kwargs))

        return faulty

    def _opening(self, act: Callable[..., int]) -> Callable[..., int]:
        def faulty(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            place = self._place(path, dir_fd) if flags & _WRITING else None
            if place is None:
                return act(path, flags, mode, dir_fd=dir_fd)
            return int(self._do("open", place, lambda: act(path, flags, mode, dir_fd=dir_fd)))

        return faulty

    def _place(self, path: Any, folder: int | None) -> str | None:
        if self._resting:
            return None
        if isinstance(path, int):
            full = _path_of(path)
        else:
            above = "" if folder is None else _path_of(folder)
            full = os.path.abspath(os.path.join(above, os.fsdecode(path)))  # noqa: PTH100, PTH118
        is_ours = any(full == root or full.startswith(f"{root}/") for root in self._roots)
        return full if is_ours else None

    def _do(self, call: str, path: str, act: Callable[[], Any]) -> Any:
        with self._lock:
            if self.is_dead:
                raise Killed
            self.changes.append((call, path))
            if len(self.changes) != self._at:
                return act()
            return self._strike(call, path, act)

    def _strike(self, call: str, path: str, act: Callable[[], Any]) -> Any:
        if not path and not self._fault.is_kill:
            return act()
        if self._fault is Fault.AFTER:
            act()
        if self._fault.is_kill:
            self.is_dead = True
            raise Killed
        if self._fault is Fault.LOST:
            done = act()
            if call == "open":
                os.close(done)
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)
        code = getattr(errno, self._fault)
        raise OSError(code, os.strerror(code), path)


def _path_of(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())
