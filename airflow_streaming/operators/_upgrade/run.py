"""What the tasks of one run of an upgrade tell each other, and how they find their change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.core.change import Change, ChangeSort

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import StreamHome

ENDED_XCOM_KEY: Final = "ended"
"""XCom of a task after which nothing is begun, with the reason: a dry run, or a person's no."""

WRONG_XCOM_KEY: Final = "wrong"
"""XCom of a task that came to no good end, with what was wrong, in a sentence."""


def pulled(context: Context, task_id: str, key: str) -> Any:
    """Return an XCom of a task of this run, ``None`` when there is none."""
    found = context["ti"].xcom_pull(task_ids=task_id, key=key)
    # Airflow gives a list of nothing for an XCom that was never pushed.
    return None if found == [] else found


def key_of(context: Context) -> str:
    """Return what names the wish of this run: all its tasks, and their tries, mean one upgrade."""
    ti = context["ti"]
    return f"{ti.dag_id} {ti.run_id}"


def found_change(home: StreamHome, report: Mapping[str, Any] | None) -> Change | None:
    """
    Return the upgrade that a run has begun, or goes on with, ended or not; ``None`` before that.

    :param report: What the run's preflight has left.
    """
    if not report:
        return None
    upgrades = [one for one in reversed(home.changes()) if one.what is ChangeSort.UPGRADE]
    if report.get("resumes"):
        return next((one for one in upgrades if one.number == report["resumes"]), None)
    return next((one for one in upgrades if home.wish(one) == report["key"]), None)


def first_told(context: Context, task_ids: Iterable[str | None], key: str) -> str:
    """Return the first text that one of some tasks has left; empty when there is none."""
    told = (pulled(context, task_id, key) for task_id in task_ids if task_id)
    return next((str(text) for text in told if text), "")
