from __future__ import annotations

from pathlib import Path

import pytest

from tests.patience import LINES, tail, until, until_async


def test_what_the_condition_gives_is_returned() -> None:
    given = iter([None, 0, "found"])

    assert until(lambda: next(given), "A thing", every=0) == "found"


def test_a_wait_in_vain_shows_what_was_seen_instead() -> None:
    with pytest.raises(AssertionError) as failed:
        until(lambda: False, "A miracle", seen=lambda: "two batches", seconds=0)

    assert "A miracle" in str(failed.value)
    assert "two batches" in str(failed.value)


async def test_a_wait_that_has_become_useless_ends_at_once() -> None:
    with pytest.raises(AssertionError, match="the driver has ended"):
        await until_async(lambda: False, "A batch", failing=lambda: "the driver has ended")


def test_a_condition_that_came_true_as_the_driver_ended_counts() -> None:
    assert until(lambda: True, "The end", failing=lambda: "the driver has ended") is True


def test_of_a_log_the_end_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    assert str(log) in tail(log)
    log.write_text("\n".join(map(str, range(100))))

    assert tail(log).splitlines()[0] == str(100 - LINES)
