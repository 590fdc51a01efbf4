"""The metadata of the provider for Airflow."""

from __future__ import annotations

from typing import Any, Final

_INTEGRATION = "Spark Structured Streaming"
_NULLABLE_TEXT = {"type": ["string", "null"]}


def _option(
    description: str, *, example: str, default: str = "", type_: str = "string"
) -> dict[str, str]:
    # Airflow formats defaults, and takes an empty JSON object for a field.
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": type_,
        "example": example,
        "default": default,
    }


_OPTIONS: Final = {
    "runtimes": _option(
        "Named Spark installations as a JSON object. A value is the folder of a "
        "virtual environment with pyspark or a SPARK_HOME, or an object with path, "
        "python and java_home.",
        example='{"spark-4.3": "/opt/spark-4.3"}',
    ),
    "metrics_endpoints": _option(
        "Web pages of Spark drivers that this provider did not launch and may ask how "
        "they are, as http://host:port, separated by commas.",
        example="http://spark-driver.internal:4040",
    ),
    "homes": _option(
        "Homes, or folders above them, that the API server may open for pages, separated "
        "by commas. Empty: homes that are spelled out in a dag file, on local folders, "
        "S3, GCS and Azure. With a list, nothing else.",
        example="s3://bucket/streams, /srv/streams",
    ),
    "ui_hosts": _option(
        "Hosts to whose Spark UI the API server leads a browser beside the hosts on which tasks of "
        "the stream's dag have run: names, .domains and networks, separated by commas.",
        example="spark.example.com, .workers.internal, 10.0.0.0/8",
    ),
    "clusters": _option(
        "Clusters that may get requests about drivers, separated by spaces, as 'airflow-streaming status' and "
        "the stream's page name them. The API server asks the cluster of a task's Spark connection "
        "besides. Where the list is not empty, tasks and triggers ask no other recorded cluster either.",
        example="yarn://http://rm1:8088,http://rm2:8088 spark://master:6066",
    ),
    "page_deadline": _option(
        "Seconds after which a page about a stream is refused when its home does not "
        "answer, from 0.5 to 30.",
        example="3",
        default="4",
        type_="float",
    ),
    "page_threads": _option(
        "Number of homes that pages read at once in one process of the API server, "
        "from 2 to 64. One home gets at most two of them.",
        example="16",
        default="8",
        type_="integer",
    ),
    "metric_labels": _option(
        "Keys of labels of StreamSpec that the metrics of a stream carry, separated by commas, at most 8. "
        "Each value is a time series.",
        example="team, tier",
    ),
    "trigger_queues": _option(
        "Queues of triggerers that share the streams, separated by commas: each stream's triggers get one "
        "of them, by a digest of its name. Needs [triggerer] queues_enabled and a triggerer started with "
        "--queues for each. Empty: the triggers have the queue of their task.",
        example="streams-1, streams-2, streams-3",
    ),
    "trigger_queue_label": _option(
        "Key of a label of StreamSpec whose value names the queue of a stream's triggers; a stream "
        "without it, or with another value, gets its queue by its name.",
        example="triggerer",
    ),
    "driver_folder": _option(
        "Folder of the worker's host for driver logs. Empty means 'streams' in AIRFLOW_HOME.",
        example="/var/log/streams",
    ),
    "driver_log_mb": _option(
        "Megabytes that the log of one driver may take on the worker's host, from 2 to 100000. The driver "
        "copies a log of half the size to <log>.1 and begins it anew. On a standalone cluster and on YARN "
        "it does so with stdout and stderr; Kubernetes rotates the log itself.",
        example="500",
        default="100",
        type_="integer",
    ),
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's entry; ``package-name`` must equal the distribution's name."""
    return {
        "package-name": "airflow-streaming",
        "name": _INTEGRATION,
        "description": "Run PySpark Structured Streaming applications as production services.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://spark.apache.org/streaming/",
                "tags": ["apache"],
            }
        ],
        "operators": _modules(
            "operators",
            "backup",
            "campaign",
            "check",
            "cutover",
            "cutover_preflight",
            "disaster",
            "doctor",
            "freshness",
            "gate",
            "maintenance",
            "prune",
            "rehearsal",
            "restore",
            "stream",
            "switch",
            "upgrade",
            "upgrade_preflight",
            "windows",
        ),
        "sensors": _modules("sensors", "stream"),
        "hooks": _modules(
            "hooks",
            "airflow_facts",
            "checkpoint",
            "clusters",
            "connections",
            "home",
            "launchers",
            "lineage",
            "overrides",
            "snapshot",
            "spark_submit",
            "sql_pointer",
            "stream",
            "window_events",
        ),
        "triggers": _modules(
            *(
                "triggers",
                "asset",
                "batch_pause",
                "campaign",
                "change",
                "gate",
                "home",
                "polling",
                "question",
                "stream",
                "windows",
            )
        ),
        "extra-links": [
            "airflow_streaming.links.stream.SparkUiLink",
            "airflow_streaming.links.stream.DriverLogLink",
        ],
        "connection-types": [_stream_home()],
        "config": {
            "streaming": {
                "description": "Streams of the airflow-streaming provider.",
                "options": _OPTIONS,
            }
        },
    }


def _modules(room: str, *names: str) -> list[dict[str, Any]]:
    modules = [f"airflow_streaming.{room}.{name}" for name in names]
    return [{"integration-name": _INTEGRATION, "python-modules": modules}]


def _stream_home() -> dict[str, Any]:
    return {
        "connection-type": "stream_home",
        "hook-class-name": "airflow_streaming.hooks.home.StreamHomeHook",
        "hook-name": "Stream home",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"login": "Access key or account", "password": "Secret key"},
        },
        "conn-fields": {
            "home": {
                "label": "Home",
                "description": "Path or URI of a home in this store, which Test opens.",
                "schema": _NULLABLE_TEXT,
            },
            "endpoint_url": {
                "label": "Endpoint URL",
                "description": "For a store that speaks S3 and is not AWS.",
                "schema": {**_NULLABLE_TEXT, "format": "url"},
            },
            "region": {"label": "Region", "schema": _NULLABLE_TEXT},
            "project": {"label": "Google Cloud project", "schema": _NULLABLE_TEXT},
        },
    }
