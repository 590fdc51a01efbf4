"""A stream whose newest backup is too old is told once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_streaming.model.records.alert import AlertKind
from tests.unit.operators.checkpoints import ALWAYS, back_up, stop
from tests.unit.world import World


def test_a_stream_that_is_late_is_told_once_and_once_that_it_is_not(stream: World) -> None:
    heard: list[dict[str, Any]] = []
    telling = {"max_age": timedelta(hours=3), "on_late": heard.append, "on_recovered": heard.append}

    for _ in range(2):
        with pytest.raises(AirflowSkipException):
            back_up(stream, blackouts=[ALWAYS], **telling)
    for _ in range(2):
        back_up(stream, **telling)

    assert [alert.alert for alert in stream.home.alerts()] == [
        AlertKind.UNHEALTHY,
        AlertKind.RECOVERED,
    ]
    assert [one["alert_subject"] for one in heard] == [
        "Stream orders is unhealthy: backup_age",
        "Stream orders has recovered: backup_age",
    ]


def test_where_backups_are_verified_an_unverified_one_is_none(stream: World) -> None:
    back_up(stream)

    with pytest.raises(AirflowSkipException):
        back_up(stream, blackouts=[ALWAYS], max_age=timedelta(hours=3), verify="full")

    (alert,) = stream.home.alerts()
    assert "There is no verified backup." in alert.reason


def test_who_keeps_the_stream_alive_leaves_alerts_of_backups_to_who_takes_them(
    stream: World,
) -> None:
    heard: list[Any] = []
    stop(stream)  # so that the task has something to do
    with pytest.raises(AirflowSkipException):
        back_up(stream, blackouts=[ALWAYS], max_age=timedelta(hours=3))
    (alert,) = stream.home.alerts()
    Path(stream.uri, "orders", "alerts", "000001.sent.json").unlink()

    stream.run()
    assert stream.home.sent(alert.number) is None
    back_up(stream, max_age=timedelta(hours=3), on_late=heard.append)

    assert [one["alert"]["number"] for one in heard] == [alert.number]
