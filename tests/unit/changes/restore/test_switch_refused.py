"""A stream stays where it is while it may run, or when the backup does not fit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.changes.restore.undo import plan_switch, switch
from airflow_streaming.checkpoints.restore.replay import RefusalCode
from airflow_streaming.exceptions import CheckpointError, RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import LaunchRequest
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.control import Desired, DesiredState
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.storage import LocalStore
from tests.fakes import FAKE_HOST
from tests.unit.checkpoints.restoring import back_up, codes
from tests.unit.home.make import make_death, make_exit
from tests.unit.launch.restored_stream import Stream


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def live(stream: Stream) -> None:
    request = LaunchRequest(
        epoch=stream.home.epoch(1), command=(), environment={}, log=Path("/dev/null")
    )
    stream.home.record_launch(stream.launcher.launch(request))


def out_of_sight(stream: Stream) -> None:
    stream.launcher = stream.launcher.seen_from(replace(FAKE_HOST, name="other", machine="m-2"))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda stream: stream.want(DesiredState.RUNNING), RefusalCode.WANTED_RUNNING),
        (live, RefusalCode.DRIVER_ALIVE),
        (out_of_sight, RefusalCode.DRIVER_UNPROVED),
    ],
    ids=["wanted running", "a living driver", "a driver out of sight"],
)
def test_a_stream_that_may_run_is_left_alone(
    stream: Stream, make: Callable[[Stream], None], code: RefusalCode
) -> None:
    make(stream)

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)
    assert codes(plan.refusals) == [code]
    with pytest.raises(RestoreRefused):
        stream.switch()
    assert stream.home.newest_change() is None
    assert (stream.checkpoint, stream.is_at(3)) == (stream.old, True)


@pytest.mark.parametrize("proof", ["word", "exit"])
def test_a_driver_out_of_sight_is_dead_by_its_own_or_a_persons_word(
    stream: Stream, proof: str
) -> None:
    out_of_sight(stream)
    if proof == "word":
        stream.home.declare_dead(make_death(1))
    else:
        stream.home.store.create(
            Layout("orders").epoch(1, "exit.json"), Layout("orders").bytes_of(make_exit(1))
        )

    assert stream.switch().deployment.number == 2


def test_a_stream_nobody_ever_stopped_is_wanted_running(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.home.store.delete(Layout("orders").place(Desired, number=1))

    with pytest.raises(RestoreRefused, match="is running"):
        stream.switch()


def test_a_query_with_a_place_of_its_own_cannot_be_moved(stream: Stream) -> None:
    stream.claim("raw", "id-raw", "file:/own/place")

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert codes(plan.refusals) == [RefusalCode.OWN_LOCATION]


def test_queries_are_held_against_their_claims(stream: Stream) -> None:
    stream.claim("more", "id-more", f"file:{stream.old}/more")
    path = Layout("orders").place(QueryClaim, deployment=1, query="sums")
    claim = stream.home.claim(1, "sums")
    assert claim is not None
    stream.home.store.replace(path, replace(claim, query_id="id-new").to_bytes("orders"))

    plan = plan_switch(stream.home, stream.launcher, stream.store, stream.backup.id)

    assert codes(plan.refusals) == [RefusalCode.QUERY_MISSING, RefusalCode.QUERY_ID_DIFFERS]
    accepted = [RefusalCode.QUERY_MISSING, RefusalCode.QUERY_ID_DIFFERS]
    assert stream.switch(accept=accepted).deployment.number == 2


def test_a_backup_of_another_stream_is_refused_unless_asked_for(stream: Stream) -> None:
    other = back_up(stream.store, Path(stream.old), stream="other")
    stream.backup = other

    with pytest.raises(RestoreRefused, match="is of stream 'other'"):
        stream.switch()
    assert stream.switch(accept=[RefusalCode.OTHER_STREAM]).deployment.number == 2


def test_a_stream_without_a_deployment_has_nothing_to_exchange(stream: Stream) -> None:
    home = StreamHome(LocalStore(stream.uri), "nobody")

    with pytest.raises(RestoreRefused, match="has no deployment"):
        switch(home, stream.launcher, stream.store, stream.backup.id, by="kim")


def test_a_damaged_backup_ends_a_switch_without_a_trace(stream: Stream) -> None:
    (pack,) = (stream.folder / "store").rglob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)

    with pytest.raises(CheckpointError):
        stream.switch()
    assert stream.home.newest_change() is None


@pytest.mark.parametrize("named", ["", "cuonts"], ids=["no query", "a query that there is not"])
def test_a_sink_of_one_of_several_queries_must_name_its_query(stream: Stream, named: str) -> None:
    with pytest.raises(RestoreRefused):
        stream.switch(sink_logs={named: str(stream.folder / "out/_spark_metadata")})
    assert (stream.checkpoint, stream.home.changes()) == (stream.old, [])
