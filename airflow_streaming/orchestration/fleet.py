"""The DAG of a fleet: it works on the campaigns of a home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

from airflow.sdk import DAG, Param

from airflow_streaming.model.arguments.calls import Called
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.names import check_folder_name
from airflow_streaming.operators.campaign import FleetUpgradeOperator
from airflow_streaming.options import Connections, RehearsalOptions
from airflow_streaming.orchestration.stream_dags import START
from airflow_streaming.orchestration.upgrade import KILLED_WORKERS
from airflow_streaming.spec import StreamSpec

__all__ = ["fleet_dags"]

_PAGE = """Works on the campaigns that `airflow-streaming campaign start` has begun, until they are closed.
A run continues every open campaign of the home, or the one of the form. Streams that this DAG does not know stay as
they are."""


@checked
def fleet_dags(
    streams: Sequence[StreamSpec],
    *,
    dag_id: str = "fleet_upgrade",
    soak: SoakTerms | None = None,
    rehearsal: RehearsalOptions | None = None,
    room: Annotated[Callable[[], int | None], Called(())] | None = None,
    query_hosts: Sequence[str] = (),
    connections: Connections = Connections(),
    start_date: datetime = START,
) -> dict[str, DAG]:
    """
    Return the DAG that upgrades many streams in waves.

    Put it into the file of the streams' DAGs, or name it in ``shared_with`` of each stream.

    :param streams: The streams, as their DAGs have them; all in one home.
    :param dag_id: Id of the DAG.
    :param soak: Conditions for a new deployment.
    :param rehearsal: How a change is rehearsed that the gates call *unknown*.
    :param room: Returns how many more streams the cluster can take now, ``None`` without a limit.
    :param query_hosts: Hosts that the queries of a campaign may ask, e.g. ``prometheus:9090``.
    :param connections: How its tasks reach Spark, the home and the backups.
    :raises SpecError: an argument is wrong, or the streams are in several homes.
    """
    with DAG(
        check_folder_name(dag_id),
        schedule=None,
        start_date=start_date,
        catchup=False,
        max_active_runs=1,
        params={
            "campaign": Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title="Campaign",
                description="Its number. Leave empty for all open campaigns.",
            )
        },
        doc_md=_PAGE,
        description=f"Upgrades {len(streams)} streams in waves.",
    ) as dag:
        FleetUpgradeOperator(
            task_id="campaigns",
            streams=streams,
            campaign="{{ params.get('campaign') or '' }}",
            soak=soak,
            rehearsal=rehearsal,
            room=room,
            query_hosts=query_hosts,
            conn_id=connections.conn_id,
            home_conn_id=connections.home_conn_id,
            backup_store=connections.backup_store,
            **KILLED_WORKERS,
        )
    return {dag_id: dag}
