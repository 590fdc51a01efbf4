"""A task group whose tasks run while a stream is held between two batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from airflow_streaming.operators.switch import PauseStreamOperator, ResumeStreamOperator
from airflow_streaming.options import Connections
from airflow_streaming.spec import StreamSpec

__all__ = ["paused_stream"]


@contextmanager
def paused_stream(
    stream: StreamSpec,
    *,
    longest: timedelta = timedelta(hours=1),
    begin_within: timedelta = timedelta(minutes=10),
    reason: str = "Work on its tables.",
    group_id: str = "paused",
    connections: Connections = Connections(),
) -> Iterator[TaskGroup]:
    """
    Add a group whose tasks run while the stream is held between two batches.

    The setup ``begin`` opens the pause, the teardown ``end`` closes it, also when a task between them fails. If the
    stream continued before, the teardown fails, and the run with it.

    :param stream: The stream.
    :param longest: How long the stream is held at most, from a minute to a day.
    :param begin_within: How long the batches in work may take to end.
    :param reason: Why, for the records.
    :param group_id: Id of the group.
    :param connections: How its tasks reach the home.
    """
    of_stream: dict[str, Any] = {
        "home": stream.home,
        "stream": stream.name,
        "reason": reason,
        "home_conn_id": connections.home_conn_id,
    }
    with TaskGroup(group_id) as group:
        begin = PauseStreamOperator(
            task_id="begin", longest=longest, begin_within=begin_within, **of_stream
        )
        end = ResumeStreamOperator(task_id="end", **of_stream)
        with end.as_teardown(setups=begin, on_failure_fail_dagrun=True):
            yield group
