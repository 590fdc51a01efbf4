"""
Progress: how far a long piece of work on checkpoints or backups is.

The code that does the work calls it; the caller prints it, or not. Calls are cheap and may come
many thousand times, so the listener must throttle.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """Steps of a copy or a verification."""

    LOOK = "look"
    COPY = "copy"
    CHECK = "check"
    PUBLISH = "publish"
    READ = "read"
    WRITE = "write"
    DRILL = "drill"
    REHEARSAL = "rehearsal"
    COMPARE = "compare"
    REMOVE = "remove"


class ProgressNow(NamedTuple):
    """
    The progress of one phase.

    :param subject: The query or stream; empty for the whole.
    :param files: Files done; ``size`` is their bytes.
    :param of: Files in all; ``None`` if unknown, as ``of_size``.
    :param unit: The counted unit, if not files.
    """

    phase: Phase
    subject: str = ""
    files: int = 0
    of: int | None = None
    size: int = 0
    of_size: int | None = None
    unit: str = "files"


Progress = Callable[[ProgressNow], None]
"""Called with every step; must not raise."""


def no_progress(now: ProgressNow) -> None:
    """Report nothing."""
