"""A driver's JVM maps the class data archive that ``make setup`` has made for its runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.launch.java import find_archive
from airflow_streaming.launch.runtime import resolve_runtime
from tests.integration.stream.conftest import RealStream


def test_a_driver_maps_the_archive_of_its_runtime(real: RealStream, spark_4_3: Path) -> None:
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    archive = find_archive(runtime.spark_home, runtime.java)
    if archive is None:
        pytest.skip("The runtime has no class data archive; run 'make setup'.")
    if archive != archive.resolve():
        pytest.skip("The runtime is reached through a link, under which no archive fits its jars.")

    real.run()

    process = Path("/proc", str(real.launch(1).handle["pid"]))
    real.until(lambda: "libjvm.so" in (process / "maps").read_text(), "The driver's JVM")
    real.until(lambda: b"SparkSubmit" in (process / "cmdline").read_bytes(), "Its command line")
    real.until(lambda: archive.name in (process / "maps").read_text(), "The archive in its memory")
