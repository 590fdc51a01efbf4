"""
Links from a task to what its stream shows: the Spark UI and the driver's log.

The driver and its ports change with every epoch, so a link does not hold their addresses; it leads
to a route of the plugin, which looks into the home when it is followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class StreamLink(BaseOperatorLink):
    """A link to a page of the plugin about the stream that a task keeps."""

    page: str

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        parts = (ti_key.dag_id, ti_key.run_id, ti_key.task_id, str(ti_key.map_index))
        return "/streaming/tasks/" + "/".join(quote(part, safe="") for part in parts) + self.page


class SparkUiLink(StreamLink):
    """The Spark UI of the driver that runs now."""

    name = "Spark UI"
    page = "/spark-ui"


class DriverLogLink(StreamLink):
    """The end of the log of the driver that runs now."""

    name = "Driver log"
    page = "/driver-log"
