"""Whether a script would get a session of Spark Connect, which cannot be watched from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.exceptions import DriverRefusal

CONNECT_REFUSAL: Final = (
    "This script uses Spark Connect, whose queries run in another process that cannot be watched, "
    "stopped or fenced from here. Use a classic session: remove SPARK_REMOTE, builder.remote(...) "
    "and spark.api.mode=connect."
)


def is_connect(environment: Mapping[str, str], options: Mapping[str, Any]) -> bool:
    """Tell whether a session built here and now would be one of Spark Connect."""
    if environment.get("SPARK_REMOTE") or environment.get("SPARK_CONNECT_MODE_ENABLED"):
        return True
    mode = options.get("spark.api.mode") or environment.get("SPARK_API_MODE") or "classic"
    return "spark.remote" in options or str(mode).lower() == "connect"


def check_classic(connect: bool) -> None:
    """
    Refuse a session of Spark Connect.

    :raises DriverRefusal: it is one.
    """
    if connect:
        raise DriverRefusal(CONNECT_REFUSAL)
