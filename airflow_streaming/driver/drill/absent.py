"""A stand-in for a query that a drill leaves out: to the script it has ended without a batch."""

from __future__ import annotations

import uuid
from typing import Any


class Absent:
    """
    What the script gets for a query that is not in the backup.

    It answers what scripts ask of a query; whatever else they ask is missing, and the script fails
    with the name of it.
    """

    isActive = False
    lastProgress = None

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.id = self.runId = str(uuid.uuid4())

    @property
    def status(self) -> dict[str, Any]:
        """Return Spark's status of a query that has ended."""
        return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[Any]:
        """Return no progress."""
        return []

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Return at once, as for a query that has ended."""
        return None if timeout is None else True

    def exception(self) -> None:
        """Return no error."""

    def processAllAvailable(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def explain(self, extended: bool = False) -> None:
        """Do nothing."""
