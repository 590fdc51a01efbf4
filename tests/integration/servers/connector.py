"""Spark's own Kafka connector, where a folder has its jars."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

OFFICIAL: Final = "kafka"
STAND_IN: Final = "python_kafka"
"""The Python data source of the example ``kafka_to_kafka``."""


def official_jars() -> str:
    """Return the connector's jars as Spark's options name them; skip the test where there are none."""
    folder = os.environ.get("SPARK_PACKAGES_DIR")
    if not folder:
        pytest.skip("SPARK_PACKAGES_DIR does not name a folder with the jars of spark-sql-kafka.")
    return ",".join(map(str, sorted(Path(folder).glob("*.jar"))))
