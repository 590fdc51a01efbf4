from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming import __version__
from airflow_streaming.exceptions import AlreadyExists, RecordError, RecordFormatError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.status import Status
from airflow_streaming.model.storage import LocalStore
from airflow_streaming.model.wire import Record
from tests.unit.home.make import (
    NOON,
    SCRIPT,
    make_death,
    make_decision,
    make_deployment,
    make_epoch,
    make_exit,
    make_launch,
    make_status,
    make_stop,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def test_a_new_stream_has_no_epoch(stream: StreamHome) -> None:
    assert stream.newest_epoch() is None


def test_the_newest_epoch_is_the_one_with_the_highest_number(stream: StreamHome) -> None:
    for number in (1, 2, 9, 10, 1_000_000):
        stream.create_epoch(make_epoch(number))

    assert stream.newest_epoch() == make_epoch(1_000_000)
    assert stream.epoch(9) == make_epoch(9)


def test_files_of_other_names_are_no_epochs(stream: StreamHome) -> None:
    stream.create_epoch(make_epoch(3))
    for name in ("9.json", "000009.json.bak", "x.json", "000009/status.json", "000008.txt"):
        stream.store.create(f"orders/epochs/{name}", b"{}")

    assert stream.newest_epoch() == make_epoch(3)


def test_a_taken_epoch_is_not_taken_again(stream: StreamHome) -> None:
    stream.create_epoch(make_epoch())

    with pytest.raises(AlreadyExists, match=r"orders/epochs/000001\.json"):
        stream.create_epoch(make_epoch(token="another"))

    assert stream.epoch(1).token == "token-1"


def test_of_racing_launchers_one_takes_the_epoch(stream: StreamHome) -> None:
    start = threading.Barrier(24)

    def take(number: int) -> str | None:
        epoch = make_epoch(token=f"launcher {number}")
        start.wait()
        try:
            stream.create_epoch(epoch)
        except AlreadyExists:
            return None
        return epoch.token

    with ThreadPoolExecutor(24) as pool:
        winners = [token for token in pool.map(take, range(24)) if token]

    assert winners == [stream.epoch(1).token]


def test_a_launcher_whose_reply_was_lost_still_owns_its_epoch(tmp_path: Path) -> None:
    class RepeatingStore(LocalStore):
        """Its client sends a request twice when the first reply is lost."""

        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            super().create(path, data)

    stream = StreamHome(RepeatingStore(str(tmp_path)), "orders")

    stream.create_epoch(make_epoch())

    assert stream.newest_epoch() == make_epoch()


Write = Callable[[StreamHome, Any], Record]
Read = Callable[[StreamHome, int], Record | None]


@pytest.mark.parametrize(
    ("write", "read", "first", "second"),
    [
        pytest.param(
            StreamHome.record_launch,
            StreamHome.launch,
            make_launch(),
            make_launch(handle={"pid": "1"}),
            id="launch",
        ),
        pytest.param(
            StreamHome.request_stop,
            StreamHome.stop_request,
            make_stop(),
            make_stop(by="bob"),
            id="stop request",
        ),
        pytest.param(
            StreamHome.declare_dead,
            StreamHome.death,
            make_death(),
            make_death(override=True),
            id="death",
        ),
        pytest.param(
            StreamHome.record_restart_decision,
            StreamHome.restart_decision,
            make_decision(),
            make_decision(consecutive_failures=9),
            id="restart decision",
        ),
    ],
)
def test_the_first_record_of_an_epoch_counts(
    stream: StreamHome, write: Write, read: Read, first: Record, second: Record
) -> None:
    assert read(stream, 1) is None

    assert write(stream, first) == first
    assert write(stream, second) == first

    assert read(stream, 1) == first
    assert read(stream, 2) is None


@pytest.mark.parametrize(
    ("name", "record", "read"),
    [
        pytest.param("status.json", make_status(), StreamHome.status, id="status"),
        pytest.param("exit.json", make_exit(), StreamHome.exit, id="exit"),
        pytest.param("launch.json", make_launch(), StreamHome.launch, id="launch"),
        pytest.param("stop.json", make_stop(), StreamHome.stop_request, id="stop request"),
        pytest.param("death.json", make_death(), StreamHome.death, id="death"),
        pytest.param("restart.json", make_decision(), StreamHome.restart_decision, id="restart"),
    ],
)
class TestRecordsOfAnEpoch:
    def test_it_is_read_from_its_file(
        self, stream: StreamHome, name: str, record: Record, read: Read
    ) -> None:
        assert read(stream, 1) is None
        stream.store.create(f"orders/epochs/000001/{name}", record.to_bytes("orders"))

        assert read(stream, 1) == record

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            pytest.param(b"", "Not valid JSON", id="empty"),
            pytest.param(b'{"kind": ', "Not valid JSON", id="half a file"),
            pytest.param(b"[]", "Expected a JSON object", id="a list"),
            pytest.param(b'{"kind": "other", "version": 1}', "found 'other'", id="another kind"),
            pytest.param(b"\xff\xfe\x00", "Not valid JSON", id="no text"),
        ],
    )
    def test_a_malformed_one_is_named(
        self,
        stream: StreamHome,
        name: str,
        record: Record,
        read: Read,
        content: bytes,
        message: str,
    ) -> None:
        stream.store.create(f"orders/epochs/000001/{name}", content)

        with pytest.raises(RecordError, match=rf"epochs/000001/{name} cannot be read: .*{message}"):
            read(stream, 1)

    def test_unknown_fields_are_ignored(
        self, stream: StreamHome, name: str, record: Record, read: Read
    ) -> None:
        text = record.to_bytes("orders").replace(b"{", b'{"from_the_future": {"x": 1}, ', 1)
        stream.store.create(f"orders/epochs/000001/{name}", text)

        assert read(stream, 1) == record

    def test_one_of_a_newer_format_names_the_running_version(
        self, stream: StreamHome, name: str, record: Record, read: Read
    ) -> None:
        text = record.to_bytes("orders").replace(b'"version": 1', b'"version": 2')
        stream.store.create(f"orders/epochs/000001/{name}", text)

        with pytest.raises(RecordFormatError, match=rf"{name} .*version {re.escape(__version__)} "):
            read(stream, 1)

    def test_one_of_another_epoch_is_refused(
        self, stream: StreamHome, name: str, record: Record, read: Read
    ) -> None:
        stream.store.create(f"orders/epochs/000002/{name}", record.to_bytes("orders"))

        with pytest.raises(RecordError, match=rf"000002/{name} is not what its name says"):
            read(stream, 2)


def test_a_record_that_names_no_stream_is_another_versions_and_stays_in_the_home(
    stream: StreamHome,
) -> None:
    stream.store.create("orders/epochs/000001/launch.json", make_launch().to_bytes())

    with pytest.raises(RecordFormatError, match=r"launch\.json .*no field 'stream'") as refusal:
        stream.launch(1)
    assert f"version {__version__} " in str(refusal.value)
    assert "Move" not in str(refusal.value)


def test_heartbeats_push_no_other_record_out_of_memory(stream: StreamHome) -> None:
    stream.create_deployment(make_deployment(1), SCRIPT)
    decoded = stream.deployment(1)
    gc.collect()
    before = count_statuses()
    for beat in range(MORE_THAN_ARE_KEPT):
        write_status(stream, make_status(beat=beat))
        assert stream.status(1).beat == beat
    assert count_statuses() - before <= 1
    assert stream.deployment(1) is decoded


MORE_THAN_ARE_KEPT = 600


def write_status(stream: StreamHome, status: Status) -> None:
    layout = Layout(stream.name)
    stream.store.replace(layout.epoch(status.epoch, "status.json"), layout.bytes_of(status))


def count_statuses() -> int:
    return sum(type(one) is Status for one in gc.get_objects())


def test_earlier_decisions_are_those_before_the_epoch(stream: StreamHome) -> None:
    for epoch in (1, 2, 3):
        stream.create_epoch(make_epoch(epoch))
        stream.record_restart_decision(make_decision(epoch))

    assert [d.epoch for d in stream.earlier_decisions(3)] == [1, 2]
    assert [d.epoch for d in stream.earlier_decisions(4, least=2)] == [2, 3]
    assert [d.epoch for d in stream.earlier_decisions(4, since=LONG_AGO, least=1)] == [1, 2, 3]
    assert stream.earlier_decisions(1) == []


def test_closing_the_circuit_forgives_what_went_before(stream: StreamHome) -> None:
    for epoch in (1, 2, 3, 4):
        stream.create_epoch(make_epoch(epoch))
        stream.record_restart_decision(make_decision(epoch))
    stream.open_circuit(epoch=2, by="policy", reason="budget spent", now=NOON)
    assert [d.epoch for d in stream.earlier_decisions(5)] == [1, 2, 3, 4]

    stream.close_circuit(epoch=2, by="ada", reason="mended", now=NOON)
    assert [d.epoch for d in stream.earlier_decisions(5)] == [3, 4]

    stream.open_circuit(epoch=4, by="policy", reason="budget spent", now=NOON)
    assert [d.epoch for d in stream.earlier_decisions(5)] == [3, 4]
