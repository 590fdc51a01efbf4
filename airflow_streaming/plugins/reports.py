"""
Reports of gates, rehearsals and preflights that the tasks of a stream's dags have left in Airflow.

The page prints them as text and decides nothing by them, so it does no harm that users can write there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

KEY: Final = "markdown"
MOST: Final = 40
MAX_TEXT: Final = 200_000


def all_reports(dag_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return where the newest reports of some dags are, the newest first."""
    with create_session() as session:
        rows = session.execute(
            select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.timestamp)
            .where(XComModel.dag_id.in_([*dag_ids]), XComModel.key == KEY)
            .order_by(XComModel.timestamp.desc())
            .limit(MOST)
        ).all()
    return [
        {"dag": dag, "run": run, "task": task, "at": at.isoformat() if at else None}
        for dag, run, task, at in rows
    ]


def one_report(dag_id: str, run_id: str, task_id: str) -> dict[str, Any] | None:
    """Return one report, if it exists."""
    with create_session() as session:
        row = session.scalar(
            select(XComModel)
            .where(
                XComModel.dag_id == dag_id,
                XComModel.run_id == run_id,
                XComModel.task_id == task_id,
                XComModel.key == KEY,
            )
            .limit(1)
        )
        value = None if row is None else XComModel.deserialize_value(row)
    if not isinstance(value, str):
        return None
    return {"dag": dag_id, "run": run_id, "task": task_id, "text": value[:MAX_TEXT]}
