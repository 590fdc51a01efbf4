"""What a dag file needs to describe a stream; light to import."""

from __future__ import annotations

from airflow_streaming.core.deployment import StreamSpec
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.restart import Budget, RestartPolicy

__all__ = ["Budget", "HealthRules", "RestartPolicy", "StreamSpec"]
