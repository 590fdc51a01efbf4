"""
The end of a driver as an event: a descriptor of its process that becomes readable when it ends.

A pidfd belongs to one process for good, and may be had of a process that is not a child. It only
says when to look again: whether the driver is gone is what ``probe`` answers, by token. A driver may
have several processes with its token (the JVM, and the Python wrapper that outlives it by a
moment); one is watched at a time, and the look after its end finds the next.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Final

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

MOST: Final = 4096
"""Ends that one process watches at most."""
_lock: Final = threading.Lock()
_open = 0


class DriverEnd:
    """
    The end of one process; closed by ``close``, or when nothing refers to it any more.

    :param fd: A pidfd, which it owns.
    """

    def __init__(self, fd: int) -> None:
        global _open
        self._fd = fd
        with _lock:
            _open += 1

    def fileno(self) -> int:
        """Return the descriptor; readable from the end of the process on, and -1 once closed."""
        return self._fd

    @property
    def has_come(self) -> bool:
        return self._fd < 0 or _is_readable(self._fd)

    def close(self) -> None:
        """Give the descriptor back; repeating it does nothing."""
        global _open
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            with _lock:
                _open -= 1

    def __del__(self) -> None:
        self.close()


def open_end(pid: int, is_driver: Callable[[int], bool]) -> DriverEnd | None:
    """
    Watch for the end of a process.

    Its identity is checked after the descriptor was opened and its life after that. So an id which
    passed to another process in between is not mistaken for the driver's.

    :param is_driver: Tells whether the process that has this id now is the driver's.
    :returns: ``None`` where the process is not the driver's or has ended, where the system has no
        pidfds, and when half of the descriptors that this process may open are in use for ends:
        polls find these.
    """
    if not hasattr(os, "pidfd_open") or _open >= _limit():
        return None
    try:
        end = DriverEnd(os.pidfd_open(pid))
    except OSError:
        return None
    if is_driver(pid) and not end.has_come:
        return end
    end.close()
    return None


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _limit() -> int:
    if resource is None:
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, soft // 2)
