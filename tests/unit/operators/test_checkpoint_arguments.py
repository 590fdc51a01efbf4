"""What the checkpoint operators refuse when a dag is parsed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.backup import CheckpointBackupOperator, CheckpointRetentionOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator, CheckpointVerifyOperator


def verify(**given: Any) -> Callable[[], object]:
    return lambda: CheckpointVerifyOperator(task_id="t", **given)


def restore(**given: Any) -> Callable[[], object]:
    return lambda: CheckpointRestoreOperator(task_id="t", home="/h", stream="s", **given)


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
        pytest.param(verify(home="rel/h", stream="s"), "is relative", id="a relative home"),
        pytest.param(verify(store="rel/s"), "is relative", id="a relative store"),
        pytest.param(
            verify(store="/s", stream="a/b"), "used for folders", id="a stream of folders"
        ),
        pytest.param(verify(store="/s", backup_id="../x"), "backup_id is", id="another folder"),
        pytest.param(restore(backup_id="../x"), "backup_id is", id="a restore of another folder"),
        pytest.param(restore(to="rel/new"), "is relative", id="a relative target"),
        pytest.param(
            restore(accept="query_mising"), "accept has 'query_mising'", id="a typing error"
        ),
        pytest.param(restore(accept=["target_not_empty"]), "accept has", id="never acceptable"),
        pytest.param(
            lambda: CheckpointBackupOperator(task_id="t", store="/s", checkpoint="ck"),
            "is relative",
            id="a relative checkpoint",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_when_the_dag_is_parsed(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        make()


def test_what_a_run_fills_in_is_left_to_it() -> None:
    CheckpointVerifyOperator(task_id="t", home="{{ h }}", stream="{{ s }}", backup_id="{{ b }}/")
    CheckpointRestoreOperator(
        task_id="t", store="{% x %}", to="{{ to }}", accept="{{ params.accept }}"
    )
    CheckpointRestoreOperator(
        task_id="t", home="/h", stream="orders.green", accept=["{{ params.accept }}"]
    )
    CheckpointRestoreOperator(
        task_id="t", home="/h", stream="s", accept="query_missing, sink_gap", backup_id=""
    )
