"""What the checkpoint operators refuse when a dag is parsed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.backup import CheckpointBackupOperator, CheckpointRetentionOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda: CheckpointVerifyOperator(task_id="t"), "names no backup store", id="no place"
        ),
        pytest.param(
            lambda: CheckpointVerifyOperator(task_id="t", store="/s", level="deep"),
            "level is 'deep'; give quick, full, drill",
            id="an unknown level",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h"),
            "give home and stream",
            id="no stream",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", checkpoint="/c"),
            "give home and stream",
            id="two streams",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", verify="drill"),
            "verify is 'drill'",
            id="a drill after every backup",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", home="/h", stream="s", origin="cron"),
            "origin is 'cron'",
            id="an unknown origin",
        ),
        pytest.param(
            lambda: CheckpointBackupOperator(
                task_id="t", home="/h", stream="s", max_age=timedelta()
            ),
            "max_age is 0 s",
            id="no age",
        ),
        pytest.param(
            lambda: CheckpointRestoreOperator(task_id="t", store="/s"),
            "give home to restore its stream",
            id="nowhere to restore to",
        ),
        pytest.param(
            lambda: CheckpointRetentionOperator(task_id="t", store="/s", policy={"keep": 3}),
            "keep is unknown",
            id="an unknown rule",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_when_the_dag_is_parsed(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        make()
