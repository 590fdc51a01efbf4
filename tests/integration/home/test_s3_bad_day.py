"""A home and a backup store on S3 that is slow, throttles, loses answers and lists late."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.retention import apply_retention
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import AlreadyExists, StreamingError
from airflow_streaming.home.home import open_home
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.records.control import Change, ChangeKind, DesiredState
from airflow_streaming.storage.fsspec_store import open_store
from airflow_streaming.storage.probe import ensure_exclusive
from tests.fakes import FakeLauncher
from tests.integration.home.servers import S3Server
from tests.integration.servers.bad_s3 import BadDay, on_a_bad_day
from tests.patience import until
from tests.unit.checkpoints.restoring import back_up, is_sound_at, run_batches
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch
from tests.unit.launch.racer import Racer
from tests.unit.racing import at_once

DAYS = {
    "slow": BadDay(slow=0.2),
    "throttled": BadDay(throttled=4),
    "lost": BadDay(lost=2),
    "late": BadDay(late=2.0),
    "all at once": BadDay(slow=0.05, throttled=5, lost=3, late=1.0),
}
WORST = "all at once"
ROUNDS = 3


@pytest.fixture(
    params=[
        pytest.param(day, marks=[] if day == WORST else pytest.mark.nightly("Half a minute a day."))
        for day in DAYS
    ]
)
def bad_s3(request: pytest.FixtureRequest, exclusive_s3: S3Server) -> Iterator[S3Server]:
    day = DAYS[request.param]
    with on_a_bad_day(exclusive_s3, day) as server:
        yield server
    assert day.slow or day.late or day.counts["struck"], "Nothing went wrong."


@pytest.fixture
def uri() -> str:
    return f"s3://streams/{uuid.uuid4().hex}"


def test_of_racing_creators_one_wins(bad_s3: S3Server, uri: str) -> None:
    ensure_exclusive(open_store(uri, bad_s3.options), creators=8, rounds=2)


def test_of_two_workers_that_launch_at_once_one_takes_the_epoch(bad_s3: S3Server, uri: str) -> None:
    workers = [open_home(uri, bad_s3.options).stream("orders") for _ in range(2)]
    workers[0].create_deployment(make_deployment(), SCRIPT)
    taken: list[int] = []

    def begin(worker: int) -> None:
        for number in (1, 2, 3):
            try:
                workers[worker].create_epoch(make_epoch(number, token=f"{worker}-{number}"))
            except AlreadyExists:
                continue
            taken.append(number)

    at_once(lambda: begin(0), lambda: begin(1))

    assert sorted(taken) == [1, 2, 3]


@pytest.mark.nightly("A minute on a bad day; that one takes the epoch is tried above.")
def test_of_two_tasks_that_launch_in_one_instant_one_starts_a_driver(
    bad_s3: S3Server, tmp_path: Path
) -> None:
    for turn in range(ROUNDS):
        launcher, place = FakeLauncher(), f"s3://streams/{uuid.uuid4().hex}"

        def racer(name: str, place: str = place, launcher: FakeLauncher = launcher) -> Racer:
            home = open_home(place, bad_s3.options).stream("orders")
            return Racer(tmp_path, launcher, name, home)

        racers = [racer("one"), racer("two")]
        refused: list[StreamingError] = []

        def launch(racer: Racer, refused: list[StreamingError] = refused) -> None:
            try:
                racer.launch()
            except StreamingError as err:
                refused.append(err)

        at_once(*(lambda one=one: launch(one) for one in racers))  # type: ignore[misc]

        assert len(launcher.launched) <= 1, f"In round {turn}: {launcher.living()}, {refused}."
        if launcher.launched:
            assert launcher.living() == [1]
        else:
            # A late listing showed no deployment to either; their tasks try again.
            assert len(refused) == len(racers)


def test_of_two_changes_that_begin_in_one_instant_one_is_open(bad_s3: S3Server, uri: str) -> None:
    workers = [open_home(uri, bad_s3.options).stream("orders") for _ in range(2)]
    workers[0].create_deployment(make_deployment(), SCRIPT)
    begun: list[str] = []

    def begin(worker: int) -> None:
        change = Change(
            number=1,
            stream="orders",
            what=ChangeKind.UPGRADE,
            by=str(worker),
            reason="",
            at=NOON,
            replaced=1,
            deployment=2,
            checkpoint="file:///ck",
        )
        try:
            workers[worker].begin_change(change)
        except StreamingError:
            return
        begun.append(change.by)

    at_once(lambda: begin(0), lambda: begin(1))

    assert [workers[0].change(1).by] == begun


def test_a_wish_is_recorded_once(bad_s3: S3Server, uri: str) -> None:
    stream = open_home(uri, bad_s3.options).stream("orders")

    for _ in range(2):
        stream.want(DesiredState.STOPPED, by="ada", reason="maintenance", now=NOON)

    names = open_store(uri, bad_s3.options).names("orders/desired")
    assert names in ([], ["000001.json"])  # a late listing shows none yet
    assert open_store(uri, bad_s3.options).read("orders/desired/000002.json") is None


@pytest.mark.nightly("Half a minute on a bad day.")
def test_a_backup_is_taken_verified_restored_and_kept(
    bad_s3: S3Server, uri: str, tmp_path: Path
) -> None:
    store = open_backup_store(uri, bad_s3.options, create=True)
    backup = back_up(store, run_batches(tmp_path / "ck", 2))

    found = verify(store, backup.id, Level.FULL, by="kim", now=NOON, stream="orders")
    until(lambda: store.backups(), "the listing shows the backup")
    restore(store, backup.id, Place(to=str(tmp_path / "new")))
    kept = apply_retention(store, "orders", RetentionPolicy(keep_last=1), by="kim")

    assert found.problems == ()
    assert is_sound_at(tmp_path / "new", 2)
    assert kept.removed == ()
    assert verify(store, backup.id, Level.FULL, by="kim", now=NOON, stream="orders").holds
