"""A DAG with a deadline: complete until a time, by another time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.definitions.callback import AsyncCallback

from airflow_streaming.exceptions import SpecError
from airflow_streaming.orchestration.deadlines import complete_by


async def missed(**_: Any) -> None:
    """Do nothing."""


def made(**changes: Any) -> Any:
    named: dict[str, Any] = {
        "at": "0 6 * * *",
        "within": timedelta(minutes=20),
        "callback": AsyncCallback(missed),
    }
    return complete_by("orders", "/data/streams", **{**named, **changes})


def test_the_deadline_counts_from_the_time_of_the_schedule() -> None:
    dag = made()

    (deadline,) = dag.deadline
    assert deadline.interval == timedelta(minutes=20)
    assert deadline.reference.reference_name == "DagRunLogicalDateDeadline"
    (task,) = dag.tasks
    assert (task.past, task.deferrable) == ("{{ logical_date }}", True)


def test_airflow_can_store_it() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    stored = DagSerialization.to_dict(made())

    assert "deadline" in str(stored)


@pytest.mark.parametrize("wrong", [{"callback": print}, {"within": timedelta(0)}])
def test_a_deadline_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        made(**wrong)
