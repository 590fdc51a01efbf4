"""
Stage: how far an upgrade in place has come.

Each stage that was reached is a record, created once, beside the change. A stage is reached when
all of its work is done and can be found again; whoever is killed before the record was written does
the work once more and finds it done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from airflow_streaming.core.wire import Record


class Stage(StrEnum):
    """The stages, in their order; the last six are the ends and the way to them."""

    BEGUN = "begun"
    """The change is open: keep-alive looks on. Terms and proposed deployment are recorded."""
    BACKED_UP = "backed_up"
    """A verified backup of the running stream exists."""
    STOPPED = "stopped"
    """The old driver is proved gone, and a backup of exactly the batch it ended at exists."""
    APPLYING = "applying"
    """It was decided to make the new deployment: from here on giving up means rolling back."""
    DEPLOYED = "deployed"
    """The new deployment is the current one."""
    LAUNCHED = "launched"
    """Its driver was started."""
    JUDGED = "judged"
    """The soak has a verdict; its facts say which."""
    KEPT = "kept"
    """Point of no return: from here on only forward."""
    ROLLING_BACK = "rolling_back"
    LEFT = "left"
    """A person has said that nothing is put back: the stream stays down until one wants it up."""
    RESTORED = "restored"
    """The new driver is proved gone; checkpoint and sinks are what the old deployment left, or, by
    a person's word, as they were found."""
    ROLLED_BACK = "rolled_back"
    """The old deployment runs again."""
    ABORTED = "aborted"
    """Given up before the new deployment was made; the old one runs, or starts again."""

    @property
    def is_end(self) -> bool:
        """Tell whether nothing comes after it."""
        return self in (Stage.KEPT, Stage.ROLLED_BACK, Stage.ABORTED)

    @property
    def file(self) -> str:
        """
        Return the name of its record.

        Stages that exclude each other share a name, so that of two who decide at once one wins.
        """
        return _FORKS.get(self, f"{self.value}.json")


_FORKS: Final = {
    stage: "-or-".join(one.value for one in fork) + ".json"
    for fork in ((Stage.APPLYING, Stage.ABORTED), (Stage.KEPT, Stage.ROLLING_BACK))
    for stage in fork
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReached(Record):
    """
    A stage that an upgrade has reached.

    :param change: Number of the change.
    :param reason: Why, in words; of an end that is not ``kept``, what went wrong.
    :param facts: Ids that later stages need: backups, deployment, epoch, verdict.
    """

    KIND: ClassVar[str] = "upgrade_stage"

    change: int
    stage: Stage
    at: datetime
    by: str
    reason: str
    facts: Mapping[str, str] = field(default_factory=dict)
