"""What the unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

import pytest

import airflow_streaming
from airflow_streaming.launch import package
from airflow_streaming.model.spark import failures as text
from airflow_streaming.storage.probe import ensure_exclusive
from tests.unit.world import World, make_world


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """No unit test cuts the power, so nothing has to reach the disk."""
    # For each test, since others may run in the same session, and not by the fixture monkeypatch:
    # asked for here, it would undo a test's own patches too late.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.sync", lambda: None)
        yield


_small_race: Final = partial(ensure_exclusive, creators=2, rounds=1)


@pytest.fixture(autouse=True)
def a_small_race_for_a_new_home() -> Iterator[None]:
    """
    A new home is tried with two writers and not with three times 24.

    Nearly every test makes a home of its own, and the races for them took more than what was tested
    in them; ``home/test_probe.py`` runs them in full.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_streaming.home.home.ensure_exclusive", _small_race)
        patch.setattr("airflow_streaming.cli.streams.ensure_exclusive", _small_race)
        yield


_INSTALLED: Final = Path(airflow_streaming.__file__).parent
_read_anew: Final = package._zip
_zip_of_this_package: Final = cache(partial(_read_anew, _INSTALLED))


@pytest.fixture(autouse=True)
def one_zip_of_this_package() -> Iterator[None]:
    """What travels to the drivers is read once for all tests, and not for each launch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            package,
            "_zip",
            lambda source: _zip_of_this_package() if source == _INSTALLED else _read_anew(source),
        )
        yield


@pytest.fixture(autouse=True)
def nothing_hidden_by_other_tests() -> Iterator[None]:
    """Secrets are hidden by the whole process, and here each test is one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_HIDDEN", text._Hidden())
        yield


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return one stream with a real home, a fake launcher and a runtime that is only laid out."""
    return make_world(tmp_path, monkeypatch)
