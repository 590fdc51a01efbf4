"""A driver on a cluster ends with its JVM, and takes its secrets out of its environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from airflow_streaming.driver.launch_context import take_private_conf
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.spark.conf import PRIVATE_CONF, PRIVATE_CONF_FILE
from airflow_streaming.model.spark.failures import presentable
from tests.patience import until

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
CHILD = """
import time
from airflow_streaming.driver.jvm import die_with_jvm
print(die_with_jvm(), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux ends a process with its parent.")
def test_a_killed_jvm_takes_its_python_process_along() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "its end")


def test_secret_configuration_leaves_the_environment_and_is_hidden(tmp_path: Path) -> None:
    conf = {"spark.my.password": "planted-value-1"}
    file = tmp_path / "conf.json"
    file.write_text(json.dumps(conf))

    for environment in ({PRIVATE_CONF: json.dumps(conf)}, {PRIVATE_CONF_FILE: str(file)}):
        assert take_private_conf(environment) == conf
        assert environment == {}
    assert "planted-value-1" not in presentable("it was planted-value-1")


def test_a_driver_without_secrets_has_none() -> None:
    assert take_private_conf({"PATH": "/bin"}) == {}


@pytest.mark.parametrize("environment", [{PRIVATE_CONF: "{"}, {PRIVATE_CONF_FILE: "/no/such/file"}])
def test_secrets_that_cannot_be_read_are_a_refusal(environment: dict[str, str]) -> None:
    with pytest.raises(DriverRefusal):
        take_private_conf(environment)
