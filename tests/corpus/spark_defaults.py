"""
The settings of a plain session of each release of Spark, and the defaults in which releases differ.

    python -m tests.corpus.spark_defaults .runtimes/spark-*

starts a Spark of each runtime, writes its settings to ``tests/corpus/spark_sessions.json`` and prints the
table ``airflow_streaming/gates/spark_defaults.toml``.
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

SESSIONS: Final = Path(__file__).with_name("spark_sessions.json")
PROBE: Final = """
import json
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
conf = spark._jsparkSession.sessionState().conf()
entries = getattr(getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
told = [spark.version, entries.getConfigEntries().toString(), conf.getAllConfs().mkString("\\x1e")]
print("FOUND" + json.dumps(told))
spark.stop()
"""
_ENTRY: Final = re.compile(
    r"ConfigEntry\(key=(spark\.sql\.\S+), defaultValue=(.*?), doc=", re.DOTALL
)
_OF_THE_PLACE: Final = "spark.sql.warehouse.dir"
"""Differs from one folder to the next; a plan does not record it."""


def session_of(runtime: Path) -> dict[str, Any]:
    """Start the Spark of a runtime and return its version, the defaults, and the settings that it sets itself."""
    python = runtime / "bin" / "python"
    ran = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, check=True)
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("FOUND"))
    spark, entries, told = json.loads(line.removeprefix("FOUND"))
    defaults = {
        key: value for key, value in sorted(_ENTRY.findall(entries)) if key != _OF_THE_PLACE
    }
    pairs = (pair.split(" -> ", 1) for pair in told.split("\x1e"))
    settings = {key: value for key, value in pairs if is_of_spark(key, value, defaults)}
    return {"spark": spark, "settings": settings, "defaults": defaults}


def is_of_spark(key: str, value: str, defaults: Mapping[str, str]) -> bool:
    """Return whether a plan would record a setting: one of SQL with another value than the default."""
    return key.startswith("spark.sql.") and key != _OF_THE_PLACE and defaults.get(key) != value


def changed_defaults(sessions: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """
    Return for each key the default from each release that changed it.

    :param sessions: The oldest release first. A release without the key behaves like the setting that a newer one's
        session sets itself.
    """
    table: dict[str, dict[str, str]] = {}
    for session in sessions:
        name = ".".join(session["spark"].split(".")[:2])
        for key, value in session["defaults"].items():
            steps = table.setdefault(key, {})
            if not steps or [*steps.values()][-1] != value:
                steps[name] = value
        for key, value in session["settings"].items():
            if [*table.get(key, {})] == [name]:
                table[key] = {OLDEST: value, **table[key]}
    return {key: steps for key, steps in sorted(table.items()) if len(steps) > 1}


OLDEST: Final = "3.5"


def differing(sessions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions with the defaults only in which they differ."""
    found = [*sessions]
    keys = set(changed_defaults(found))
    common = set.intersection(*(set(session["defaults"]) for session in found))
    return [
        {
            **session,
            "defaults": {
                key: value
                for key, value in sorted(session["defaults"].items())
                if key in keys or key not in common
            },
        }
        for session in found
    ]


if __name__ == "__main__":
    measured = sorted(map(session_of, map(Path, sys.argv[1:])), key=lambda one: str(one["spark"]))
    SESSIONS.write_text(json.dumps(differing(measured), indent=1) + "\n", encoding="utf-8")
    for key, steps in changed_defaults(measured).items():
        values = ", ".join(
            f"{json.dumps(name)} = {json.dumps(value)}" for name, value in steps.items()
        )
        print(f"{json.dumps(key)} = {{ {values} }}")
