"""
The plugin: pages behind the links of a task.

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
    operator_extra_links = [SparkUiLink(), DriverLogLink()]  # noqa: RUF012 - Airflow declares it so

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # there a list
        """Return the app; its routes authenticate themselves, as Airflow does not do it."""
        from airflow_streaming.plugin.routes import create_app  # see above

        return [{"app": create_app(), "url_prefix": "/streaming", "name": "airflow_streaming"}]
