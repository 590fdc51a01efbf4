"""
Reports of a run that travel by XCom, which other users may edit: the home keeps the digest of each.

A report decides what is rehearsed, approved and begun. A task that reads one believes only the report that
the stream's home has recorded for this run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.model.names import base_of
from airflow_streaming.operators.common.base import run_key, who
from airflow_streaming.operators.common.form_edits import pulled
from airflow_streaming.operators.common.gate import REPORT_XCOM_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import StreamHome


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value as JSON; the same before and after its journey through a database."""
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()


def push_recorded(context: Context, home: StreamHome, key: str, value: Any) -> None:
    """Record the digest of a value in the home, and push the value as an XCom of this task."""
    ti = context["ti"]
    _base(home).record_run_report(
        *(run_key(context), ti.task_id, key),
        digest_of(value),
        by=who(context),
        now=datetime.now(UTC),
    )
    ti.xcom_push(key=key, value=value)


def is_recorded(context: Context, home: StreamHome, task_id: str, key: str, value: Any) -> bool:
    """Tell whether the home has recorded this value for the XCom of a task of this run."""
    recorded = _base(home).run_report(run_key(context), task_id, key)
    return recorded is not None and recorded.digest == digest_of(value)


def report_of_run(context: Context, home: StreamHome, task_id: str) -> Mapping[str, Any] | None:
    """
    Return the report of the run's preflight, ``None`` without one.

    :raises AirflowFailException: XCom has another report than the home has recorded.
    :raises HomeUnavailable: the home has no such record at all, as a folder that is not mounted.
    """
    found = pulled(context, task_id, REPORT_XCOM_KEY)
    if not found:
        return None
    if not _base(home).has_run_reports():
        raise HomeUnavailable(
            f"The home of stream {home.name!r} has no record of this run. Check that the home's volume is "
            "mounted, then run this task again."
        )
    if not is_recorded(context, home, task_id, REPORT_XCOM_KEY, found):
        raise AirflowFailException(
            f"XCom {REPORT_XCOM_KEY!r} of task {task_id!r} is not the report that stream {home.name!r} has recorded "
            "for this run. Nothing was begun with it. Run the whole DAG again, and find out who has edited the XCom."
        )
    report: Mapping[str, Any] = found
    return report


def records_of(uri: str, conn_id: str | None, stream: str) -> StreamHome:
    """Return the home of a stream."""
    from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

    return StreamHomeHook(uri, conn_id).get_conn().stream(stream)


def _base(home: StreamHome) -> StreamHome:
    """Return the home of the base lane: an approval does not know which lane is live."""
    return home.beside(base_of(home.name))


def _plain(value: Any) -> Any:
    """Return JSON with whole floats as integers: some databases and some readers change one into the other."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
