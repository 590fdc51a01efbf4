from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver import exit_status as last_word
from airflow_streaming.driver.exit_status import ExitRecordWriter, fenced, refused
from airflow_streaming.exceptions import DriverRefusal
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import Exit
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import NOON, AbsentStore

LAYOUT = Layout("orders")


def read(store: LocalStore) -> Exit:
    data = store.read(LAYOUT.place(Exit, epoch=1))
    assert data is not None
    return LAYOUT.parse(Exit, data, epoch=1)


def test_it_is_said_once(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    word = ExitRecordWriter(store, LAYOUT, 1)
    word.say(fenced(1, NOON))
    word.say(refused(1, NOON, DriverRefusal("Too late.")))
    assert read(store) == word.said == fenced(1, NOON)


def test_a_record_that_is_there_already_is_left_alone(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.create(LAYOUT.place(Exit, epoch=1), LAYOUT.bytes_of(fenced(1, NOON)))
    ExitRecordWriter(store, LAYOUT, 1).say(refused(1, NOON, DriverRefusal("Second.")))
    assert read(store) == fenced(1, NOON)


def test_a_home_that_is_away_is_tried_again_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_word, "_BETWEEN", 0.0)
    store = AbsentStore(str(tmp_path))
    word = ExitRecordWriter(store, LAYOUT, 1)
    word.say(fenced(1, NOON))
    assert store.calls == 3
    assert word.said == fenced(1, NOON)
