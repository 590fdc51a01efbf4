"""What the tests of triggers share."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_streaming.triggers import lanes


@pytest.fixture(autouse=True)
def own_lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every test lanes of its own: each has another home, and only so many have a lane."""
    made: dict[str, ThreadPoolExecutor] = {}
    monkeypatch.setattr(lanes, "_lanes", made)
    yield
    for lane in made.values():
        lane.shutdown(wait=False)
