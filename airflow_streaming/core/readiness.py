"""
Readiness: whether a downstream dag may rely on a stream now.

Three-valued: ready, not yet, or never by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReadinessState(StrEnum):
    """Whether the stream can be relied on."""

    READY = "ready"
    WAITING = "waiting"
    LOST = "lost"
    """It will not become so until a person acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the stream can be relied on, and why."""

    state: ReadinessState
    reason: str
