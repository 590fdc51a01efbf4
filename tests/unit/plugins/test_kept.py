"""Which streams there are is asked of Airflow's database seldom, and more seldom where it takes long."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.plugins.test_drivers import keeps

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


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_removed_stream_is_told_from_one_that_never_ran(
    is_removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_streaming.exceptions import NotTheOwner, StreamRemoved
    from airflow_streaming.plugins.access import kept

    monkeypatch.setattr(
        kept, "removed_text", lambda name, removal: f"{name} was removed: {removal}"
    )
    removal = "by kim" if is_removed else None
    stream: Any = SimpleNamespace(owner=lambda: None, removal=lambda: removal, epoch_numbers=list)

    expected = (StreamRemoved, "by kim") if is_removed else (NotTheOwner, "no record of stream")
    with pytest.raises(expected[0], match=expected[1]):
        kept.check_owner(stream, keeps("", stream="orders"))
