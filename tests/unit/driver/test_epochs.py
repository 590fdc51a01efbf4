"""A continuous query has no batches: its commit log says how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring.epochs import CommittedEpochs
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.sources.rare_look import EVERY
from airflow_streaming.model.storage import LocalStore
from tests.patience import PATIENCE, until
from tests.unit.driver.fakes import FakeQuery, make_tracked


class Log:
    """A commit log and the count of its entries."""

    def __init__(self, folder: Path, *entries: int) -> None:
        self.now, self.folder = 0.0, folder
        self.write(*entries)
        self.epochs = CommittedEpochs(LocalStore(str(folder)), name="q", clock=lambda: self.now)

    def write(self, *entries: int) -> None:
        (self.folder / "commits").mkdir(exist_ok=True)
        for entry in entries:
            (self.folder / "commits" / str(entry)).touch()

    def look(self) -> tuple[int, float]:
        self.epochs.look()
        self.epochs.wait(PATIENCE)
        self.epochs.look()
        return self.epochs.count, self.epochs.committed_ago_s


def test_epochs_count_from_the_first_look_on(tmp_path: Path) -> None:
    log = Log(tmp_path, 6, 7)
    assert log.look() == (0, 0.0)
    log.write(8, 9)
    log.now = EVERY - 1
    assert log.look() == (0, EVERY - 1)
    log.now = EVERY
    assert log.look() == (2, 0.0)
    log.now = 2 * EVERY
    assert log.look() == (2, EVERY)


def test_the_first_epoch_of_a_new_checkpoint_counts(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert log.look() == (0, 0.0)
    log.write(0)
    log.now = EVERY
    assert log.look() == (1, 0.0)


def test_a_log_that_cannot_be_read_keeps_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path, 1)
    log.look()
    log.write(2)
    log.now = EVERY
    assert log.look() == (1, 0.0)

    def fail(*_: object) -> list[str]:
        raise OSError("the store is away")

    monkeypatch.setattr(LocalStore, "names", fail)
    log.now = 2 * EVERY
    assert log.look() == (1, EVERY)


def test_a_continuous_query_shows_its_epochs_as_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_streaming.driver.sources.rare_look.EVERY", 0.0)
    monkeypatch.setattr("airflow_streaming.driver.sources.rare_look._SHARE", 0)
    fake, queries = FakeQuery(), Queries()
    fake.epochs_every = 1.0
    queries.add(make_tracked(fake, folder=tmp_path))
    [query] = queries.all()

    def batches() -> int:
        queries.poll()
        return query.as_status().batches

    def has_looked() -> bool:
        assert batches() == 0
        return query._epochs is not None and query._epochs._last == -1

    until(has_looked, "a look at the empty log", every=0.01)
    assert not queries.commits_epochs
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/0").touch()
    (tmp_path / "commits/1").touch()

    until(lambda: batches() == 2, "two epochs", every=0.01)
    status = query.as_status()
    assert queries.commits_epochs
    assert (status.epoch_interval_s, status.is_continuous, status.progress) == (1.0, True, None)
    assert status.committed_ago_s is not None
    assert status.committed_ago_s < PATIENCE


def test_a_query_in_batches_has_no_epochs() -> None:
    queries = Queries()
    queries.add(make_tracked(FakeQuery()))
    queries.poll()

    assert not queries.commits_epochs
    assert not queries.all()[0].as_status().is_continuous
