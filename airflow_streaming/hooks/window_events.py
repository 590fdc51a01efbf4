"""
Airflow's record of earlier announcements: states of tasks, and receipts.

A receipt is an event of a second asset, which the task emits together with the windows. Airflow 3.3.2 cannot
return the events of the windows themselves while a run by one of them is queued: its API answers
with status 500, because the run has no start yet. No DAG is scheduled by receipts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import Asset
from airflow.sdk.execution_time.context import InletEventsAccessor

from airflow_streaming.exceptions import StreamingError
from airflow_streaming.model.products.windows import WindowClaim

CLOCKS: Final = timedelta(days=1)
"""The worker's clock may be ahead of the database's by this much."""
_EARLIEST: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""No claim is older; a forged time must not leave the calendar."""


class AirflowTask:
    """
    A running task that announces windows.

    :param ti: Its task instance, as Airflow gives it to the task.
    :param receipts: The asset of its receipts.
    """

    def __init__(self, ti: Any, receipts: Asset) -> None:
        self._ti, self._receipts = ti, receipts

    def may_succeed(self, claim: WindowClaim) -> bool:
        """
        Airflow accepts the success of a running task instance by its id, which every try has of its own.

        :raises StreamingError: this very try has made it.
        """
        ti = self._ti
        if claim.ti_id == str(ti.id):
            raise StreamingError(
                f"Claim {claim.number} of windows {claim.series!r} was made by this try of task "
                f"{ti.task_id!r}, which was started twice. The next try settles it; set retries."
            )
        if (claim.dag_id, claim.run_id, claim.task_id, claim.map_index) == (
            *(ti.dag_id, ti.run_id, ti.task_id),
            ti.map_index,
        ):
            return False
        states = ti.get_task_states(
            dag_id=claim.dag_id, task_ids=[claim.task_id], run_ids=[claim.run_id]
        )
        return "running" in [*states.get(claim.run_id, {}).values()]

    def has_events(self, claim: WindowClaim) -> bool:
        """Tell whether Airflow has the receipt of a claim, and so the events of its windows."""
        accessor = InletEventsAccessor(asset_name=claim.receipts, asset_uri=claim.receipts_uri)
        events = accessor.after((max(claim.at, _EARLIEST) - CLOCKS).isoformat())
        return any(_is_of(event, claim) for event in events)

    def signed(self, claim: WindowClaim) -> WindowClaim:
        """Return a claim with the names of this task, its run and its try."""
        ti, receipts = self._ti, self._receipts
        return replace(
            claim,
            receipts=receipts.name,
            receipts_uri=receipts.uri,
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            task_id=ti.task_id,
            map_index=-1 if ti.map_index is None else ti.map_index,
            ti_id=str(ti.id),
        )


def _is_of(event: Any, claim: WindowClaim) -> bool:
    extra = event.extra or {}
    return (event.source_dag_id, event.source_run_id, event.source_task_id) == (
        *(claim.dag_id, claim.run_id),
        claim.task_id,
    ) and (extra.get("series"), extra.get("claim")) == (claim.series, claim.number)
