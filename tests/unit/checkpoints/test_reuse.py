from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.backup.reuse import (
    MAX_RANGES,
    MAX_SCRAPS,
    SCRAP,
    Use,
    worth_referring,
)

MIB = 1024 * 1024


def a_use(index: str = "a", used: int = 8 * MIB, packed: int = 8 * MIB, ranges: int = 1) -> Use:
    return Use(index=index, used=used, packed=packed, ranges=ranges)


@pytest.mark.parametrize(
    ("use", "is_worth"),
    [
        pytest.param(a_use(), True, id="all of it is used"),
        pytest.param(a_use(used=2 * MIB), True, id="a quarter is used"),
        pytest.param(a_use(used=2 * MIB - 1), False, id="less than a quarter is used"),
        pytest.param(a_use(used=0, packed=0), False, id="nothing of a pack is used"),
        pytest.param(a_use(used=600, packed=600), True, id="small but all used"),
    ],
)
def test_a_bundle_is_referred_to_while_a_quarter_of_it_is_used(use: Use, is_worth: bool) -> None:
    assert worth_referring([use]) == ({"a"} if is_worth else set())


def test_of_small_remainders_only_the_largest_are_kept() -> None:
    scraps = [a_use(f"s{n:03d}", 1000 + n, 1000 + n) for n in range(MAX_SCRAPS + 5)]

    kept = worth_referring([*scraps, a_use("large")])

    assert kept == {"large", *(use.index for use in scraps[5:])}


def test_any_number_of_large_bundles_is_kept() -> None:
    uses = [a_use(f"b{n}", SCRAP, SCRAP) for n in range(500)]

    assert len(worth_referring(uses)) == 500


def test_what_would_burst_the_manifest_is_written_anew_the_most_broken_first() -> None:
    broken = [a_use(f"b{n}", ranges=MAX_RANGES // 3) for n in range(3)]

    assert worth_referring([a_use("worst", ranges=MAX_RANGES // 2), *broken]) == {"b0", "b1", "b2"}
