"""One real driver from connection to JVM: its configuration, its command line, its life."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_streaming.hooks.spark_submit import build_submit_command
from airflow_streaming.launch.environment import (
    driver_environment,
    properties_text,
    spark_defaults,
    write_private,
)
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Launch, LaunchCause
from tests.patience import tail, until

CANARY = "canary-77ad"
NASTY = {
    "spark.nasty.backslash": "C:\\dir\\new\\u0041",
    "spark.nasty.separators": "a=b:c#d!e",
    "spark.nasty.comment": "# not a comment",
    "spark.nasty.bang": "!x",
    "spark.nasty.lines": "one\ntwo\r\nthree",
    "spark.nasty.ends": "\ntext\n",
    "spark.nasty.tab": "a\tb",
    "spark.nasty.quotes": 'it\'s "quoted"',
    "spark.nasty.unicode": "é€🚀",
    "spark.nasty.dollar": "$(id) `id` ${HOME}",
    "spark.nasty.json": '{"a": ["b", 1], "c": "d\\n"}',
    "spark.nasty.trailing": "a\\",
    "spark.nasty.true": True,
    "spark.my.password": CANARY,
}
SCRIPT = """
import json, os, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
told = {
    "conf": dict(spark.sparkContext.getConf().getAll()),
    "argv": sys.argv[1:],
    "environment": sorted(os.environ),
    "python": sys.executable,
    "java": spark._jvm.System.getProperty("java.home"),
    "heap": spark._jvm.Runtime.getRuntime().maxMemory(),
}
out = sys.argv[1]
with open(out + ".part", "w") as file:
    json.dump(told, file)
os.rename(out + ".part", out)
time.sleep(600)
"""


@dataclass(frozen=True, kw_only=True)
class Driver:
    epoch: Epoch
    launch: Launch
    launcher: LocalLauncher
    runtime: Runtime
    told: dict[str, Any]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def command_lines(driver: Driver) -> list[list[str]]:
    """Return the command lines of the JVM and its children, without zombies."""
    jvm = psutil.Process(int(driver.launch.handle["pid"]))
    family = (jvm, *jvm.children(recursive=True))
    # The JVM never collects a child that it had while it was a shell script.
    return [process.cmdline() for process in family if is_alive(process)]


def make_epoch(launcher: LocalLauncher) -> Epoch:
    return Epoch(
        number=1,
        stream="orders",
        deployment=1,
        token=uuid.uuid4().hex,
        host=launcher.host(),
        launcher=launcher.kind,
        cause=LaunchCause.FIRST,
        reason="The first launch.",
        by="test",
        created_at=datetime.now(UTC),
    )


@pytest.fixture(scope="module")
def driver(spark_4_3: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        "spark.driver.memory 512m\nspark.from.defaults kept \\\n  together\nspark.nasty.bang no\n"
    )
    launcher = LocalLauncher()
    epoch = make_epoch(launcher)
    runtime = resolve_runtime("spark-4.3", {"spark-4.3": str(spark_4_3)})
    worker = {**os.environ, "SPARK_CONF_DIR": str(folder / "conf"), "PYTHONPATH": "/airflow"}
    environment = driver_environment(worker, runtime, {"MY_SECRET": CANARY})
    conf = {**NASTY, "spark.ui.enabled": False}
    properties = folder / f"{epoch.token}.properties"
    write_private(properties, properties_text(conf, spark_defaults(runtime, environment)))
    with pytest.MonkeyPatch.context() as patch:
        connection = {"conn_type": "spark", "host": "local[1]"}
        patch.setenv("AIRFLOW_CONN_SPARK_LOCAL", json.dumps(connection))
        command = build_submit_command(
            conn_id="spark_local",
            runtime=runtime,
            stream="orders",
            properties_file=properties,
            main=folder / "script.py",
            lists={},
            arguments=[str(folder / "told.json"), "--token", epoch.mark, "a b", "é"],
        )
    log = folder / "driver.log"
    launch = launcher.launch(
        LaunchRequest(epoch=epoch, command=command, environment=environment, log=log)
    )
    try:
        until((folder / "told.json").exists, "The script's word", seen=lambda: tail(log))
        told = json.loads((folder / "told.json").read_text())
        yield Driver(epoch=epoch, launch=launch, launcher=launcher, runtime=runtime, told=told)
    finally:
        launcher.kill(epoch, launch)


@pytest.mark.parametrize("key", NASTY)
def test_spark_reads_every_value_as_it_was_given(driver: Driver, key: str) -> None:
    value = NASTY[key]

    assert driver.told["conf"][key] == ("true" if value is True else value)


def test_the_defaults_of_the_installation_hold_where_the_stream_says_nothing(
    driver: Driver,
) -> None:
    assert driver.told["conf"]["spark.from.defaults"] == "kept together"
    assert driver.told["heap"] <= 512 * 1024 * 1024
    assert driver.told["conf"]["spark.app.name"] == "orders"
    assert driver.told["conf"]["spark.submit.deployMode"] == "client"


def test_the_driver_runs_on_the_python_and_java_of_its_runtime(driver: Driver) -> None:
    assert driver.told["python"] == str(driver.runtime.python)
    assert driver.told["java"] == str(driver.runtime.java_home)
    assert not [name for name in driver.told["environment"] if "AIRFLOW" in name.upper()]
    assert "MY_SECRET" in driver.told["environment"]


def test_arguments_reach_the_script_as_they_are(driver: Driver) -> None:
    assert driver.told["argv"][1:] == ["--token", driver.epoch.mark, "a b", "é"]


def test_the_jvm_leads_and_the_script_carries_the_token_too(driver: Driver) -> None:
    jvm = psutil.Process(int(driver.launch.handle["pid"]))
    found = driver.launcher.find(driver.epoch)

    assert jvm.name() == "java"
    assert os.getsid(jvm.pid) == jvm.pid
    assert sum(driver.epoch.mark in line for line in command_lines(driver)) == 2
    assert found is not None
    assert (found.driver, found.log) == (f"pid {jvm.pid}", driver.launch.log)


def test_no_secret_is_on_a_command_line_or_in_the_log(driver: Driver) -> None:
    for line in command_lines(driver):
        assert CANARY not in " ".join(line)
    assert CANARY not in Path(driver.launch.log).read_text()


def test_the_driver_is_seen_at_work_and_then_proved_gone(driver: Driver) -> None:
    seen = driver.launcher.probe(driver.epoch, driver.launch)
    jvm = psutil.Process(int(driver.launch.handle["pid"]))
    members = [jvm, *jvm.children(recursive=True)]

    after = driver.launcher.kill(driver.epoch, driver.launch)

    assert seen.state is ProcessState.RUNNING
    assert seen.cpu_seconds is not None
    assert seen.cpu_seconds > 1
    assert after.state is ProcessState.GONE
    until(lambda: not any(is_alive(process) for process in members), "The end of its processes")
