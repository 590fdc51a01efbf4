"""The ``[streaming]`` section of airflow.cfg, read when it is needed and never at import."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_streaming.core.names import check_stream_name, numbered
from airflow_streaming.exceptions import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Deployment-wide settings."""

    runtimes: Mapping[str, Any]
    """
    Named Spark installations: ``{"spark-4.3": "/opt/spark-4.3"}``, a virtual environment with
    pyspark or a SPARK_HOME. They live here and not in connections, because whoever names a program
    to run can run any program, and connections may be edited by people who should not.
    """

    driver_folder: Path
    """
    Folder of this host for driver logs and, for a moment at each launch, the private configuration
    file. Must not be cleaned while streams run. Default: ``streams`` in AIRFLOW_HOME.
    """

    metrics_endpoints: tuple[str, ...] = ()
    """
    Endpoints of drivers that we did not launch and that may be asked, each ``http://host:port``.
    They live here, because whoever names an address to ask can ask any service this host can reach.
    Default: none.
    """

    def driver_log(self, stream: str, epoch: int) -> Path:
        """Return the file that holds the output of an epoch's driver."""
        return self.driver_folder / check_stream_name(stream) / f"{numbered(epoch)}.log"


def read_settings() -> Settings:
    """
    Read the settings.

    :raises SpecError: ``runtimes`` is not a JSON object.
    """
    from airflow.sdk.configuration import conf  # not at dag parse

    try:
        runtimes = json.loads(conf.get("streaming", "runtimes", fallback="") or "{}")
    except ValueError as err:
        raise SpecError(f"[streaming] runtimes is not valid JSON: {err}") from err
    if not isinstance(runtimes, dict):
        raise SpecError(
            "[streaming] runtimes must be a JSON object of names and folders, for example "
            '{"spark-4.3": "/opt/spark-4.3"}.'
        )
    folder = conf.get("streaming", "driver_folder", fallback="")
    airflow_home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    endpoints = conf.get("streaming", "metrics_endpoints", fallback="") or ""
    return Settings(
        runtimes=runtimes,
        metrics_endpoints=tuple(endpoints.replace(",", " ").split()),
        driver_folder=Path(folder or Path(airflow_home).expanduser() / "streams"),
    )
