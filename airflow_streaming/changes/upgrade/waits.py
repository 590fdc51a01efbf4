"""The event that ends the present wait of an open upgrade, by its stage. Pure: the caller reads the records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.records.upgrade import UpgradeTerms
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeTransition

_STOP: Final = "the old driver to stop at a batch boundary, and the backup of that batch"
_MADE: Final = "its task, which makes the new deployment"
_WAITS: Final = {
    Stage.BEGUN: "a verified backup of the running stream",
    Stage.BACKED_UP: _STOP,
    Stage.READY: _STOP,
    Stage.STOPPED: _MADE,
    Stage.APPLYING: _MADE,
    Stage.REPARTITIONING: "Spark, which changes the number of state partitions",
    Stage.REPARTITIONED: _MADE,
    Stage.MIGRATING: "Spark, which writes a migrated copy of the checkpoint",
    Stage.MIGRATED: _MADE,
    Stage.DEPLOYED: "the start of the new driver",
    Stage.ROLLING_BACK: "the new driver to stop; then checkpoint and sinks are put back",
    Stage.LEFT: "its task, which closes the change; the stream stays stopped until a user starts it",
    Stage.RESTORED: "the start of the old deployment's driver",
}


def waits_for(history: Sequence[UpgradeTransition], terms: UpgradeTerms | None) -> str:
    """Return the awaited event of an open upgrade, as the end of a sentence that begins with "Waits for"."""
    stage = UPGRADE.state_of(history)
    if stage.is_end:
        return "its task, which closes the change"
    if stage is Stage.LAUNCHED:
        return "the end of the soak" if terms is None else _soak(terms.soak, history[-1].at)
    if stage is Stage.JUDGED:
        return _decision(terms)
    if stage is Stage.BACKED_UP and terms is not None and terms.prewarm:
        return "the new driver to reach the barrier; the old driver runs on meanwhile"
    return _WAITS[stage]


def _soak(soak: SoakTerms, since: datetime) -> str:
    until = since + soak.at_most
    return f"the soak: {soak}, until {until:%Y-%m-%d %H:%M:%S} UTC at the latest"


def _decision(terms: UpgradeTerms | None) -> str:
    if terms is not None and terms.keeps_by_itself:
        return "its task, which keeps the new deployment or takes it back by the verdict"
    return "the decision of a user: keep or roll back"
