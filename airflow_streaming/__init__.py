"""
Run PySpark Structured Streaming applications from Airflow as production services.

The names that most dags need can be imported from here; each loads its module when it is used first,
so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

__all__ = [
    "CutoverOptions",
    "HealthRules",
    "RestartPolicy",
    "SparkStreamOperator",
    "StartStreamOperator",
    "StopStreamOperator",
    "StreamHealthSensor",
    "StreamProgressSensor",
    "StreamSpec",
    "UpgradeOptions",
    "__version__",
    "stream_asset",
    "stream_dags",
]

_HOMES = {
    "CutoverOptions": "options",
    "HealthRules": "model.health_rules",
    "RestartPolicy": "model.arguments.policies",
    "SparkStreamOperator": "operators.stream",
    "StartStreamOperator": "operators.switch",
    "StopStreamOperator": "operators.switch",
    "StreamHealthSensor": "sensors.stream",
    "StreamProgressSensor": "sensors.stream",
    "StreamSpec": "spec",
    "UpgradeOptions": "options",
    "stream_asset": "assets",
    "stream_dags": "orchestration.stream_dags",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
