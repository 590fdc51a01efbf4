"""What the unit tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

import pytest

import airflow_streaming
from airflow_streaming.cli import streams
from airflow_streaming.home import home
from airflow_streaming.launch import package
from airflow_streaming.model.spark import failures as text
from airflow_streaming.storage.probe import ensure_exclusive
from tests.unit.world import World, make_world

_small_race: Final = partial(ensure_exclusive, creators=2, rounds=1)
_INSTALLED: Final = Path(airflow_streaming.__file__).parent
_read_anew: Final = package._zip
_zip_of_this_package: Final = cache(partial(_read_anew, _INSTALLED))


@pytest.fixture(autouse=True)
def quick_and_apart() -> Iterator[None]:
    """
    What every test does without, in one fixture, as it is made twelve thousand times.

    No unit test cuts the power, so nothing has to reach the disk. A new home is tried with two writers
    and not with three times 24: nearly every test makes one, and ``home/test_probe.py`` runs the races
    in full. What travels to the drivers is read once for all tests, and not for each launch. Secrets are
    hidden by the whole process, and here each test is one.
    """
    # For each test, since others may run in the same session, and not by the fixture monkeypatch:
    # asked for here, it would undo a test's own patches too late.
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda _: None)
    patch.setattr(os, "sync", lambda: None)
    patch.setattr(home, "ensure_exclusive", _small_race)
    patch.setattr(streams, "ensure_exclusive", _small_race)
    patch.setattr(package, "_zip", _zip)
    patch.setattr(text, "_HIDDEN", text._Hidden())
    # GNU readline exports the size of its terminal, also in workers of pytest-xdist.
    for size in ("COLUMNS", "LINES"):
        patch.delenv(size, raising=False)
    yield
    patch.undo()


def _zip(source: Path) -> bytes:
    return _zip_of_this_package() if source == _INSTALLED else _read_anew(source)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return one stream with a real home, a fake launcher and a runtime that is only laid out."""
    return make_world(tmp_path, monkeypatch)
