"""Airflow takes the plugin's views; one that is not right would hide everything of it."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

from airflow_streaming.plugins.streaming import StreamingPlugin


@pytest.mark.parametrize(
    "view", StreamingPlugin.external_views, ids=lambda view: view["destination"]
)
def test_airflow_takes_every_view(view: dict[str, str]) -> None:
    told = ExternalViewResponse.model_validate(view)
    assert told.href.startswith("streaming/")
    assert not told.href.startswith("/")  # so that it works below a base path


def test_it_is_in_the_navigation_on_the_dag_and_on_the_task_instance() -> None:
    places = [view["destination"] for view in StreamingPlugin.external_views]
    assert sorted(places) == ["dag", "nav", "task_instance"]
