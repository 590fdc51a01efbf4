"""The ``[streaming]`` section of airflow.cfg, read when it is needed and never at import."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.fleet.metric_labels import NO_LABELS, MetricLabels
from airflow_streaming.model.fleet.trigger_queues import NO_QUEUES, TriggerQueues
from airflow_streaming.model.names import check_folder_name, numbered
from airflow_streaming.model.uris import digest_of

_JSON_OR_QUOTED: Final = re.compile(r"""[{"']|\[\s*["'\]]""")
"""The beginning of a JSON list or object, or of a quoted entry; no URI, host or network begins so."""
_SEPARATED: Final = {",": "commas", ", ": "commas or spaces", " ": "spaces"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Deployment-wide settings."""

    runtimes: Mapping[str, Any]
    """
    Named Spark installations: ``{"spark-4.3": "/opt/spark-4.3"}``, a virtual environment with
    pyspark or a SPARK_HOME. They live here and not in connections, because the right to name a
    program to run is the right to run any program, and connections may be edited by people who
    should not.
    """

    driver_folder: Path
    """
    Folder of this host for driver logs and, for a moment at each launch, the private configuration
    file. Must not be cleaned while streams run. Default: ``streams`` in AIRFLOW_HOME.
    """

    driver_log_mb: int = 100
    """
    Megabytes that a driver's log and its older part, ``<log>.1``, may have together; the ``local``
    launcher bounds them.
    """

    metrics_endpoints: tuple[str, ...] = ()
    """
    Endpoints of drivers of other programs that may get requests, each ``http://host:port``.
    They live here, because the right to name an address is the right to query any service that this
    host can reach.
    Default: none.
    """

    homes: tuple[str, ...] = ()
    """
    Homes, or folders above them, that the API server may open for pages. They live here, because who
    names a home names a place that the API server connects to. Default: homes that are spelled out
    in a dag file, on local folders, S3, GCS and Azure.
    """

    ui_hosts: tuple[str, ...] = ()
    """Hosts, ``.domains`` and networks, beside the workers of the dag, to whose Spark UI links lead."""

    clusters: tuple[str, ...] = ()
    """
    Clusters that may get requests about drivers, as epochs name them. The API server asks the cluster of a
    task's connection besides. Where it is not empty, tasks and triggers ask no others either.
    Default: none.
    """

    page_deadline: float = 4.0
    """Seconds after which a page about a stream is refused when its home does not answer."""

    page_threads: int = 8
    """Homes that are read for pages at once, in one process of the API server."""

    metric_labels: MetricLabels = NO_LABELS
    """Keys of labels that the metrics of a stream carry."""

    trigger_queues: TriggerQueues = NO_QUEUES
    """Queues of triggerers that share the streams."""

    def driver_logs(self, home: str) -> Path:
        """
        Return the folder with the logs of a home's drivers, by stream.

        :param home: The home's URI. Streams of two homes may have one name.
        """
        return self.driver_folder / digest_of(home)

    def driver_log(self, home: str, stream: str, epoch: int) -> Path:
        """Return the file that holds the output of an epoch's driver."""
        return self.driver_logs(home) / check_folder_name(stream) / f"{numbered(epoch)}.log"


def read_settings() -> Settings:
    """
    Read the settings.

    :raises SpecError: ``runtimes`` is not a JSON object, another list is JSON, or a number is out of its
        bounds.
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
    return Settings(
        runtimes=runtimes,
        metrics_endpoints=_listed("metrics_endpoints", conf.get, ", "),
        homes=_listed("homes", conf.get),
        ui_hosts=_listed("ui_hosts", conf.get),
        clusters=_listed("clusters", conf.get, " "),
        driver_folder=Path(folder or Path(airflow_home).expanduser() / "streams"),
        driver_log_mb=int(_number("driver_log_mb", conf.get, 100, least=2, most=100_000)),
        page_deadline=_number("page_deadline", conf.get, 4.0, least=0.5, most=30.0),
        metric_labels=MetricLabels(keys=_listed("metric_labels", conf.get)),
        trigger_queues=TriggerQueues(
            names=_listed("trigger_queues", conf.get),
            label=str(conf.get("streaming", "trigger_queue_label", fallback="") or "").strip(),
        ),
        page_threads=int(_number("page_threads", conf.get, 8, least=2, most=64)),
    )


def _listed(option: str, get: Callable[..., Any], separators: str = ",") -> tuple[str, ...]:
    text = str(get("streaming", option, fallback="") or "").strip()
    if _JSON_OR_QUOTED.match(text):
        raise SpecError(
            f"[streaming] {option} is {text!r:.200}; it is a plain list, not JSON and without quotes. "
            f"Write the entries with {_SEPARATED[separators]} between them."
        )
    for separator in separators:
        text = text.replace(separator, "\n")
    return tuple(entry.strip() for entry in text.split("\n") if entry.strip())


def _number(
    option: str, get: Callable[..., Any], default: float, *, least: float, most: float
) -> float:
    text = get("streaming", option, fallback="") or default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise SpecError(
            f"[streaming] {option} is {text!r}; it must be a number from {least:g} to {most:g}."
        )
    return number
