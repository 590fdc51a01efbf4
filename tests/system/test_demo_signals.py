"""However the demo is ended, nothing of it is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.stage import REPOSITORY, leftovers
from demo.stream import Stream
from demo.waiting import Progress, wait_for


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_while_the_driver_starts_leaves_no_process_behind(
    tmp_path: Path, spark_4_3: Path, number: signal.Signals
) -> None:
    folder, say = tmp_path / "demo", Progress()
    command = [sys.executable, "-m", "demo.run", "--folder", str(folder)]
    with (tmp_path / "said.txt").open("wb") as said:
        demo = subprocess.Popen(
            [*command, "--runtime", str(spark_4_3)], cwd=REPOSITORY, stdout=said, stderr=said
        )

    def has_ended() -> str | None:
        return "The demo has ended by itself." if demo.poll() is not None else None

    try:
        wait_for(
            (folder / "airflow").is_dir, what="the stage", seconds=60, say=say, failing=has_ended
        )
        stream = Stream(folder / "streams", "retail_revenue")
        wait_for(
            lambda: stream.launch is not None,
            what="the demo to launch a driver",
            seconds=240,
            say=say,
            failing=has_ended,
        )
        assert not stream.is_gone()
        demo.send_signal(number)
        code = demo.wait(timeout=120)
    finally:
        demo.kill()
        demo.wait()

    assert code == 130, (tmp_path / "said.txt").read_text()
    assert leftovers(folder) == []
    assert stream.is_gone()
