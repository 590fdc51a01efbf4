"""A trigger's look at a stream to the row that it leaves for readers of the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.policy import RestartDecision
from airflow_streaming.services.fleet_index import row_of
from airflow_streaming.services.status_reader import restarts_in_a_day
from airflow_streaming.supervision.alerts.alerting import open_incidents
from airflow_streaming.supervision.decide import ReconcileInput
from airflow_streaming.supervision.fleet_rows import FleetRow
from airflow_streaming.supervision.restart import Progress
from airflow_streaming.supervision.stream_status import StreamStatus


def row_of_look(
    home: StreamHome,
    seen: ReconcileInput,
    decisions: Sequence[RestartDecision],
    progress: Sequence[Progress],
) -> FleetRow | None:
    """
    Return the row of a stream; ``None`` while a change is open, which readers look at themselves.

    :param decisions: The newest decision about a failed epoch, as ``read_failures`` returns it.
    :raises RecordError: a record of the stream is damaged.
    """
    if seen.change is not None or home.unfinished_change() is not None:
        return None
    recorded = seen.seen.status if seen.seen is not None else None
    now = () if recorded is None or seen.decision is not None else (recorded,)
    status = StreamStatus(
        stream=home.name,
        now=seen.now,
        rules=seen.rules,
        policy=seen.policy,
        seen=seen.seen,
        desired=home.desired(),
        circuit=seen.circuit,
        deployment=seen.deployment,
        decisions=tuple(decisions),
        progress=(*progress, *now),
        restarts_24h=restarts_in_a_day(home, seen.now),
        incidents=open_incidents(seen.alerts),
        is_live=seen.follows is None,
    )
    return row_of(status, home.owner())
