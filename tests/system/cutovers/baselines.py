"""
What people do without a cutover: stop and start, and a script that copies the checkpoint by hand.

Both go on with the same code, because neither could bring a changed aggregation over the old state;
so what is measured is the least that they cost.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from airflow_streaming.model.records.control import DesiredState
from airflow_streaming.model.records.epoch import Outcome
from demo.waiting import PATIENCE
from tests.quick_java import spark_environment
from tests.system.cutovers.consumer import Consumer
from tests.system.cutovers.keeping import KeepAlive, start, want
from tests.system.cutovers.stage import CONF, STREAM, Stage
from tests.system.cutovers.waiting import until

GRACE_S = PATIENCE


def stop_and_start(stage: Stage, application: Path, steady: float) -> Consumer:
    """Let the stream run, stop it at a batch boundary, start it again at once, and let it run."""
    start(stage, application)
    with KeepAlive(stage), Consumer(stage.home_uri, STREAM) as consumer:
        run_steadily(consumer, steady)
        want(stage, STREAM, DesiredState.STOPPED)
        until(lambda: _has_stopped(stage), "the driver to be stopped", GRACE_S)
        want(stage, STREAM, DesiredState.RUNNING)
        run_steadily(consumer, steady)
    return consumer


def _has_stopped(stage: Stage) -> bool:
    last = stage.exit_of(STREAM)
    return last is not None and last.outcome is Outcome.STOPPED and not stage.drivers()


def hand_written(stage: Stage, application: Path, steady: float) -> Consumer:
    """Do the usual: end ``spark-submit``, copy the checkpoint, start ``spark-submit`` on the copy."""
    output, first = stage.folder / "by-hand" / "out", stage.folder / "by-hand" / "checkpoint"
    output.mkdir(parents=True)
    driver = submit(stage, application, output, first)
    try:
        with Consumer("", STREAM, output=str(output)) as consumer:
            run_steadily(consumer, steady)
            driver.send_signal(signal.SIGTERM)
            driver.wait(GRACE_S)
            second = first.with_name("checkpoint-2")
            shutil.copytree(first, second)
            driver = submit(stage, application, output, second)
            run_steadily(consumer, steady)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return consumer


def submit(
    stage: Stage, application: Path, output: Path, checkpoint: Path
) -> subprocess.Popen[bytes]:
    """Start an application with ``spark-submit`` alone."""
    conf = [part for pair in CONF.items() for part in ("--conf", "=".join(pair))]
    told = ("--input", str(stage.input), "--output", str(output), "--sink", stage.sink)
    with (stage.folder / "by-hand.log").open("ab") as log:
        return subprocess.Popen(
            [
                *(str(stage.runtime.spark_submit), *conf, str(application)),
                *(*told, "--checkpoint", str(checkpoint)),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=spark_environment(stage.runtime),
            start_new_session=True,
        )


def run_steadily(consumer: Consumer, seconds: float, patience: float = PATIENCE) -> None:
    """Wait until rows arrive, and for some seconds more during which they go on to arrive."""
    before = len(consumer.arrivals)
    until(lambda: len(consumer.arrivals) >= before + 3, "fresh rows", patience)
    began = time.time()
    until(_is_steady(consumer, began, seconds), "a steady flow of fresh rows", patience)


def _is_steady(consumer: Consumer, began: float, seconds: float) -> Callable[[], bool]:
    return lambda: time.time() - began >= seconds and consumer.arrivals[-1].at > began
