"""Standing: what a keep-alive task has to know of an upgrade that is in progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.core.upgrade.stage import Stage

_USUAL: Final = timedelta(minutes=30)
_WHILE_DOWN: Final = timedelta(minutes=5)
_DOWN: Final = frozenset(
    {Stage.STOPPED, Stage.APPLYING, Stage.DEPLOYED, Stage.ROLLING_BACK, Stage.RESTORED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    An upgrade in progress.

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
        return (
            f"Change {self.change} (upgrade to deployment {self.deployment}) is in progress: "
            f"stage {self.stage}."
        )

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether nothing has come of it for so long that nobody seems to be at it."""
        return now - self.since > self.patience

    @property
    def patience(self) -> timedelta:
        """Return how long its stage may last before people are told."""
        if self.stage in _DOWN:
            return _WHILE_DOWN
        return _USUAL + (self.soaks_for if self.stage is Stage.LAUNCHED else timedelta(0))
