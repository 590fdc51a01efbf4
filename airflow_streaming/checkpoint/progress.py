"""
Progress: how far a long piece of work on checkpoints or backups is.

Whoever does the work tells; whoever asked for it prints it, or does not. Telling is cheap and may
happen many thousand times, so that it is the listener who has to be sparing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """What is being done."""

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
    How far one phase is.

    :param subject: The query or stream it is about; empty for the whole.
    :param files: Files done; ``size`` is their bytes.
    :param of: Files in all; ``None`` when unknown, as ``of_size``.
    :param unit: What is counted, where it is no files.
    """

    phase: Phase
    subject: str = ""
    files: int = 0
    of: int | None = None
    size: int = 0
    of_size: int | None = None
    unit: str = "files"


Progress = Callable[[ProgressNow], None]
"""Is told of every step; must not raise."""


def no_progress(now: ProgressNow) -> None:
    """Tell nobody."""
