from __future__ import annotations

import os
from pathlib import Path

from airflow_streaming.driver.jvm import CpuMeter

TICKS = os.sysconf("SC_CLK_TCK")


class Host:
    """A folder that looks like ``/proc``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.meter = CpuMeter(lambda: 4001, proc=folder, clock=lambda: self.now)

    def process(self, pid: int, *, parent: int, used: float, started: int = 5) -> None:
        fields = ["S", str(parent), *["0"] * 9, str(int(used * TICKS)), "0", *["0"] * 6]
        (self.folder / str(pid)).mkdir(exist_ok=True)
        text = f"{pid} (a (b) c) {' '.join([*fields, str(started), '0'])}"
        (self.folder / str(pid) / "stat").write_text(text)


def test_the_time_of_the_jvm_and_of_all_it_started_is_added_up(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(4001, parent=1, used=100)
    host.process(4002, parent=4001, used=50)
    host.process(4003, parent=4002, used=1)
    host.process(9000, parent=1, used=7)
    before = host.meter.seconds()
    host.process(4001, parent=1, used=101)
    host.process(4003, parent=4002, used=5)
    host.process(9000, parent=1, used=70)
    assert 5.0 <= host.meter.seconds() - before < 6.0


def test_a_process_that_comes_goes_or_is_replaced_makes_no_jump(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(4001, parent=1, used=100)
    host.process(4002, parent=4001, used=50)
    before = host.meter.seconds()
    host.now = 60.0
    host.process(4002, parent=4001, used=90, started=99)
    host.process(4003, parent=4001, used=500)
    assert host.meter.seconds() - before < 1.0
    (tmp_path / "4003" / "stat").unlink()
    host.process(4002, parent=4001, used=92, started=99)
    assert 2.0 <= host.meter.seconds() - before < 3.0


def test_a_new_process_is_found_within_ten_seconds(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.process(4001, parent=1, used=0)
    host.meter.seconds()
    host.process(4002, parent=4001, used=3)
    for host.now, used in [(5.0, 4), (10.0, 5), (12.0, 9)]:
        host.process(4002, parent=4001, used=used)
        told = host.meter.seconds()
    assert 4.0 <= told < 5.0


def test_without_proc_it_is_the_time_of_this_process(tmp_path: Path) -> None:
    meter = CpuMeter(lambda: 4001, proc=tmp_path / "none")
    first = meter.seconds()
    sum(range(3_000_000))
    assert meter.seconds() > first
