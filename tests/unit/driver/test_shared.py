"""The host of a shared Spark: what one job may leave to the next one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.jobs.shared import end_context, give_workers, present


class Jvm:
    """As much of a JVM as is touched between two jobs; ``done`` is what was done to it."""

    def __init__(self, *, has_context: bool) -> None:
        self.done: list[str] = []
        context = SimpleNamespace(stop=lambda: self.done.append("stop"))
        active = SimpleNamespace(isDefined=lambda: has_context, get=lambda: context)
        companion = SimpleNamespace(getActive=lambda: active)
        spark = SimpleNamespace(**{"SparkContext$": SimpleNamespace(**{"MODULE$": companion})})
        files = SimpleNamespace(closeAll=lambda: self.done.append("close"))
        hadoop = SimpleNamespace(fs=SimpleNamespace(FileSystem=files))
        self.org = SimpleNamespace(apache=SimpleNamespace(spark=spark, hadoop=hadoop))


@pytest.mark.parametrize(
    ("has_context", "expected"), [(True, ["stop", "close"]), (False, ["close"])]
)
def test_the_context_of_the_job_before_is_stopped_and_its_connections_are_closed(
    has_context: bool, expected: list[str]
) -> None:
    jvm = Jvm(has_context=has_context)
    end_context(jvm)
    assert jvm.done == expected


class System:
    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties

    def getProperties(self) -> Any:
        return SimpleNamespace(stringPropertyNames=lambda: list(self.properties))

    def clearProperty(self, name: str) -> None:
        del self.properties[name]

    def setProperty(self, name: str, value: str) -> None:
        self.properties[name] = value


def test_python_workers_see_the_variable_of_their_job_alone() -> None:
    theirs = {"spark.executorEnv.TZ": "UTC", "spark.master": "local[2]"}
    system = System(dict(theirs))

    give_workers(system, "AIRFLOW_STREAMING_REHEARSAL")
    assert system.properties == {**theirs, "spark.executorEnv.AIRFLOW_STREAMING_REHEARSAL": "1"}
    give_workers(system, "")
    assert system.properties == theirs


def test_tables_of_a_job_are_seen_as_well_as_files(tmp_path: Path) -> None:
    (tmp_path / "warehouse" / "sales").mkdir(parents=True)
    (tmp_path / "derby.log").touch()
    assert present(tmp_path) == {"warehouse", "warehouse/sales", "derby.log"}
