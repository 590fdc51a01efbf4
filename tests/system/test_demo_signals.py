"""However the demo is ended, nothing of it is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from demo.stage import REPOSITORY, leftovers
from demo.stream import Stream
from demo.waiting import PATIENCE, Progress, wait_for


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_while_airflow_starts_leaves_no_process_behind(
    tmp_path: Path, spark_4_3: Path, number: signal.Signals
) -> None:
    with Demo(tmp_path, spark_4_3) as demo:
        demo.until((demo.folder / "airflow" / "logs").is_dir, "the first component of Airflow")

        demo.interrupt(number)

    assert leftovers(demo.folder) == []


@pytest.mark.nightly("A whole Airflow until its driver starts.")
def test_a_signal_while_the_driver_starts_leaves_no_process_behind(
    tmp_path: Path, spark_4_3: Path
) -> None:
    with Demo(tmp_path, spark_4_3) as demo:
        demo.until((demo.folder / "airflow").is_dir, "the stage")
        stream = Stream(str(demo.folder / "streams"), "retail_revenue")
        demo.until(lambda: stream.launch is not None, "the demo to launch a driver")
        assert not stream.is_gone()

        demo.interrupt(signal.SIGINT)

    assert leftovers(demo.folder) == []
    assert stream.is_gone()


class Demo:
    """``make demo`` as a process of its own, which is gone when the test ends."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self._said = folder / "demo", folder / "said.txt"
        command = [sys.executable, "-m", "demo.run", "--folder", str(self.folder)]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, "--runtime", str(runtime)], cwd=REPOSITORY, stdout=said, stderr=said
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A failed test must not leave an Airflow to the next one.
        self._process.terminate()
        try:
            self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it while the demo runs."""
        wait_for(condition, what=what, say=Progress(), failing=self._has_ended)

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal, and see that the demo says it was interrupted and ends."""
        self._process.send_signal(number)
        code = self._process.wait(timeout=PATIENCE)
        assert code == 130, self._said.read_text()

    def _has_ended(self) -> str | None:
        if self._process.poll() is None:
            return None
        return f"The demo has ended by itself: {self._said.read_text()}"
