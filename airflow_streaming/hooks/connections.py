"""Airflow connections, as a task's team sees them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook


def connection_of(conn_id: str, team: str = "") -> Any:
    """
    Return a connection.

    A task's own process reads the connections of its team without naming it. The API server has no task: pages
    name the team of the stream's DAG, else they would see connections without a team only.

    :param team: Team of the DAG, where Airflow runs with teams and the caller is the API server.
    """
    if not team:
        return BaseHook.get_connection(conn_id)
    from airflow.models.connection import Connection  # Airflow's database, which only servers have

    return Connection.get_connection_from_secrets(conn_id, team_name=team)
