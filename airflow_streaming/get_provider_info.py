"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Spark Structured Streaming"
_NULLABLE_TEXT = {"type": ["string", "null"]}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's entry; ``package-name`` has to equal the distribution's name."""
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
            "operators", "checkpoint", "cutover", "gate", "stream", "switch", "upgrade"
        ),
        "sensors": _modules("sensors", "gate", "stream"),
        "hooks": _modules(
            "hooks", "backup_store", "checkpoint", "home", "sight", "spark_submit", "stream"
        ),
        "triggers": _modules(
            *("triggers", "answer", "asset", "cutover", "gate", "health", "home", "lanes"),
            *("stream", "upgrade"),
        ),
        "extra-links": [
            "airflow_streaming.links.stream.SparkUiLink",
            "airflow_streaming.links.stream.DriverLogLink",
        ],
        "connection-types": [_stream_home()],
        "config": {"streaming": _config()},
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
            "endpoint_url": {
                "label": "Endpoint URL",
                "description": "For a store that speaks S3 and is not AWS.",
                "schema": {**_NULLABLE_TEXT, "format": "url"},
            },
            "region": {"label": "Region", "schema": _NULLABLE_TEXT},
            "project": {"label": "Google Cloud project", "schema": _NULLABLE_TEXT},
        },
    }


def _config() -> dict[str, Any]:
    return {
        "description": "Streams of the airflow-streaming provider.",
        "options": {
            "runtimes": {
                "description": (
                    "Named Spark installations as a JSON object. A value is the folder of a "
                    "virtual environment with pyspark or a SPARK_HOME, or an object with path, "
                    "python and java_home."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": '{"spark-4.3": "/opt/spark-4.3"}',
                "default": "",  # Airflow formats defaults; an empty object would be a field
            },
            "metrics_endpoints": {
                "description": (
                    "Web pages of Spark drivers that this provider did not launch and may ask how "
                    "they are, as http://host:port, separated by commas."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "http://spark-driver.internal:4040",
                "default": "",
            },
            "driver_folder": {
                "description": (
                    "Folder of the worker's host for driver logs. Empty means 'streams' in "
                    "AIRFLOW_HOME."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "/var/log/streams",
                "default": "",
            },
        },
    }
