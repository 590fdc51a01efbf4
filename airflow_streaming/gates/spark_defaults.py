"""
The value that a setting has in a session that does not set it, where releases of Spark differ.

A plan records the settings other than its own Spark's defaults. A value that a user sets on both releases is
therefore recorded by one of them only when it is the default of the other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from airflow_streaming.gates.change.pair import is_at_least
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.releases import Minor

_TABLE: Final = "spark_defaults.toml"


def value_of(plan: QueryPlan, key: str) -> str | None:
    """
    Return the value that a session of a plan has for a setting.

    ``None`` for a default without a row: all releases share it, or it was not measured.
    """
    if key in plan.settings:
        return plan.settings[key]
    steps = all_defaults().get(key, {}).items()
    values = [value for since, value in steps if is_at_least(plan.spark, since)]
    return values[-1] if values else None


@cache
def all_defaults() -> Mapping[str, Mapping[Minor, str]]:
    """Return for each key the default from each release that changed it, the oldest first."""
    text = files("airflow_streaming.gates").joinpath(_TABLE).read_text(encoding="utf-8")
    return {
        key: {parse_spark_version(since)[:2]: value for since, value in sorted(changes.items())}
        for key, changes in tomllib.loads(text).items()
    }
