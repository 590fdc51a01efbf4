"""What a keep-alive task has to know of a change that somebody else has in hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol


class ChangeInProgress(Protocol):
    """A change of a stream that has not been closed; as text, a sentence on how far it has come."""

    @property
    def rule(self) -> str:
        """Return the name under which people are told that nobody seems to be at it."""

    @property
    def since(self) -> datetime:
        """Return when it came to where it is."""

    @property
    def patience(self) -> timedelta:
        """Return how long it may be there before people are told."""

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the change may start a driver now, or end one that is not stopped."""

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether nothing has come of it for so long that nobody seems to be at it."""
