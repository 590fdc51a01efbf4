"""Which streams there are is asked of Airflow's database seldom, and more seldom where it takes long."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    ("takes", "rest"),
    [
        pytest.param(0.1, 10.0, id="a few streams"),
        pytest.param(2.0, 40.0, id="thousands of streams"),
        pytest.param(30.0, 60.0, id="a slow database"),
    ],
)
def test_a_query_that_takes_long_rests_long(
    monkeypatch: pytest.MonkeyPatch, takes: float, rest: float
) -> None:
    from airflow_streaming.plugins.access import kept

    now, asked = 1_000.0, 0

    def all_kept(_: Any) -> list[Any]:
        nonlocal now, asked
        now, asked = now + takes, asked + 1
        return []

    monkeypatch.setattr(kept, "all_kept", all_kept)
    monkeypatch.setattr(kept, "create_session", nullcontext)
    monkeypatch.setattr(kept.time, "monotonic", lambda: now)
    keepers = kept.Keepers()

    keepers.all()
    now += rest - 0.1
    keepers.all()
    assert asked == 1
    now += 0.1
    keepers.all()
    assert asked == 2
