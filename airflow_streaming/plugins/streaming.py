"""
The plugin: the Streams page in Airflow's navigation, its tabs, and the links of a task.

Every component of Airflow imports this module, so FastAPI is imported when the API server asks for
the app, and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_streaming.links.stream import DriverLogLink, SparkUiLink


class StreamingPlugin(AirflowPlugin):
    """Registers the pages and the links that lead to them."""

    name = "airflow_streaming"
    external_views = [  # noqa: RUF012 - Airflow declares it so
        {
            "name": "Streams",
            "href": "streaming/app/",
            "destination": "nav",
            "category": "browse",
            "url_route": "streams",
            "icon": "/streaming/app/icon.svg",
        },
        {
            "name": "Stream",
            "href": "streaming/app/?dag={DAG_ID}&q={DAG_ID}",
            "destination": "dag",
            "url_route": "stream",
        },
        {
            "name": "Stream",
            "href": "streaming/tasks/{DAG_ID}/{RUN_ID}/{TASK_ID}/{MAP_INDEX}/stream",
            "destination": "task_instance",
            # Airflow drops a second view with the same route, wherever it leads from.
            "url_route": "stream_of_task",
        },
    ]
    operator_extra_links = [SparkUiLink(), DriverLogLink()]  # noqa: RUF012 - Airflow declares it so

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # there a list
        """Return the app; its routes authenticate themselves, as Airflow does not do it."""
        from airflow_streaming.plugins.routes import create_app  # see above

        return [{"app": create_app(), "url_prefix": "/streaming", "name": "airflow_streaming"}]
