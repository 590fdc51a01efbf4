"""The end of a driver's output, as the pages of a standalone cluster show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.launch.clusters.rest import Answer
from airflow_streaming.launch.clusters.standalone import StandaloneLauncher
from airflow_streaming.launch.clusters.standalone_pages import Output, worker_address
from airflow_streaming.launch.port import DriverLog
from tests.unit.launch.recorded_master import WORKER, RecordedMaster
from tests.unit.launch.test_port_contract import cluster_request_for, make_contract_epoch

PAGES = "http://10.0.0.7:8081"


@pytest.mark.parametrize(
    ("raw", "output"),
    [
        (b"==== Bytes 0-4 of 4 of /work/stderr ====\none\n", Output(tail=b"one\n", size=4)),
        (b"==== Bytes 0-0 of 0 of /work/stderr ====\n", Output(tail=b"", size=0)),
        # It begins within a line, which may hold half a secret.
        (
            b"==== Bytes 2-9 of 9 of /work/stderr ====\nword=x\ntwo",
            Output(tail=b"two", size=9),
        ),
        (b"==== Bytes 2-9 of 9 of /work/stderr ====\nword=x", Output(tail=b"", size=9)),
        (b"Error: invalid log directory /work/none", None),
        (b"<html>==== Bytes 0-4 of 4 of x ====\n", None),
        (b"", None),
    ],
)
def test_what_a_worker_shows_is_read_from_the_begin_of_a_line(
    raw: bytes, output: Output | None
) -> None:
    assert Output.of(Answer(status=200, raw=raw)) == output


def test_no_error_of_a_worker_is_an_output() -> None:
    assert Output.of(Answer(status=500, raw=b"==== Bytes 0-4 of 4 of x ====\none\n")) is None


@pytest.mark.parametrize(
    ("workers", "address"),
    [
        ([{"id": "w1", "webuiaddress": PAGES}], PAGES),
        (
            [{"id": "w0", "webuiaddress": "http://other:1"}, {"id": "w1", "webuiaddress": PAGES}],
            PAGES,
        ),
        ([{"id": "w1", "webuiaddress": "https://[fd00::7]:8081"}], "https://[fd00::7]:8081"),
        ([{"id": "w2", "webuiaddress": PAGES}], ""),
        # Nothing that a master sends.
        ([{"id": "w1", "webuiaddress": f"{PAGES}/admin?x="}], ""),
        ([{"id": "w1", "webuiaddress": "http://user@10.0.0.7:8081"}], ""),
        ([{"id": "w1", "webuiaddress": "file:///etc/passwd"}], ""),
        ([{"id": "w1"}, "w1", None], ""),
        ("w1", ""),
        (None, ""),
    ],
)
def test_a_workers_address_is_the_one_of_the_masters_list(workers: Any, address: str) -> None:
    assert worker_address(Answer(status=200, body={"workers": workers}), "w1") == address


@pytest.fixture
def master() -> Iterator[RecordedMaster]:
    made = RecordedMaster()
    yield made
    made.close()


def log_of(master: RecordedMaster, folder: Path, most: int = 1000, **output: bytes) -> DriverLog:
    """Launch a driver that has written something, and read it."""
    launcher = StandaloneLauncher(master.url, pause=lambda _: None)
    epoch = make_contract_epoch(launcher)
    launch = launcher.launch(cluster_request_for(epoch, folder))
    (driver,) = master.drivers
    master.outputs = {(driver, kind): text for kind, text in output.items()}
    master.end(driver)
    return launcher.logs(epoch, launch, None, most)


def test_both_outputs_of_a_driver_that_has_ended_are_shown(
    master: RecordedMaster, tmp_path: Path
) -> None:
    found = log_of(master, tmp_path, stdout=b"out\n", stderr=b"Launch Command\nValueError\n")

    assert found.tail == b"==== stdout\nout\n==== stderr\nLaunch Command\nValueError"
    assert (found.size, found.trouble) == (30, "")
    (driver,) = master.drivers
    assert found.place == f"{master.workers_pages}/logPage/?driverId={driver}&logType=stderr"


def test_a_long_output_is_cut_at_its_begin(master: RecordedMaster, tmp_path: Path) -> None:
    lines = b"".join(b"line %06d\n" % number for number in range(1000))

    found = log_of(master, tmp_path, most=1000, stderr=lines)

    assert found.tail is not None
    assert len(found.tail) <= 1000
    assert found.tail.splitlines()[-1] == b"line 000999"
    assert {len(line) for line in found.tail.splitlines()} == {len(b"line 000000")}
    assert found.size == len(lines)


def test_a_worker_out_of_reach_is_asked_through_its_master(
    master: RecordedMaster, tmp_path: Path
) -> None:
    master.workers_pages = "http://127.0.0.1:9"

    assert log_of(master, tmp_path, stderr=b"text").tail == b"==== stderr\ntext"


def test_without_any_answer_the_log_says_where_it_should_be(
    master: RecordedMaster, tmp_path: Path
) -> None:
    master.workers_pages = "http://127.0.0.1:9"

    found = log_of(master, tmp_path)

    assert found.tail is None
    assert found.trouble
    assert found.place.startswith("http://127.0.0.1:9/logPage/")


def test_a_worker_that_the_master_has_lost_shows_nothing(
    master: RecordedMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.launch.recorded_master.WORKER", f"{WORKER}-other")
    launcher = StandaloneLauncher(master.url, pause=lambda _: None)
    epoch = make_contract_epoch(launcher)
    launch = launcher.launch(cluster_request_for(epoch, tmp_path))
    monkeypatch.undo()

    found = launcher.logs(epoch, launch, None, 1000)

    assert (found.tail, bool(found.trouble)) == (None, True)
