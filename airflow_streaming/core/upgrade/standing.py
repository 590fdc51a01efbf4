"""Standing: what a keep-alive task has to know of an upgrade that is in progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.upgrade.stage import Stage

_USUAL: Final = timedelta(minutes=30)
_WHILE_DOWN: Final = timedelta(minutes=5)
_DOWN: Final = frozenset(
    {
        Stage.STOPPED,
        Stage.APPLYING,
        Stage.DEPLOYED,
        Stage.ROLLING_BACK,
        Stage.LEFT,
        Stage.RESTORED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    An upgrade in progress, or one that has come to its end and was not closed.

    :param change: Number of the change.
    :param deployment: Number of the deployment to come.
    :param stage: How far it has come, and ``since`` when.
    :param soaks_for: How long its soak may last.
    """

    change: int
    deployment: int
    stage: Stage
    since: datetime
    soaks_for: timedelta = timedelta(0)

    def __str__(self) -> str:
        which = f"Change {self.change} (upgrade to deployment {self.deployment})"
        if self.is_over:
            return f"{which} has come to its end and was not closed: stage {self.stage}."
        return f"{which} is in progress: stage {self.stage}."

    @property
    def rule(self) -> str:
        """Return the name under which people are told that nobody seems to be at it."""
        return "unfinished_upgrade"

    @property
    def owns_stream(self) -> bool:
        """Tell whether only the upgrade may start a driver now."""
        return not self.is_over

    @property
    def is_over(self) -> bool:
        """Tell whether the stream is no longer the upgrade's, though the change is open."""
        return self.stage.is_end

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether nothing has come of it for so long that nobody seems to be at it."""
        # Whoever reached the stage may have had another clock. An alert that comes as much earlier
        # or later as two clocks differ does no harm, and nothing else hangs on this.
        return now - self.since > self.patience

    @property
    def patience(self) -> timedelta:
        """Return how long its stage may last before people are told."""
        if self.stage in _DOWN:
            return _WHILE_DOWN
        return _USUAL + (self.soaks_for if self.stage is Stage.LAUNCHED else timedelta(0))
