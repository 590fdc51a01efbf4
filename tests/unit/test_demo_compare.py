from __future__ import annotations

from collections import Counter

import pytest

from demo.compare import compare

A, B, C = "2026-01-05 | Freedonia", "2026-01-05 | Ruritania", "2026-01-06 | Freedonia"


@pytest.mark.parametrize(
    ("found", "lost", "doubled", "wrong"),
    [
        pytest.param([A, B], 0, 0, 0, id="equal"),
        pytest.param([A], 1, 0, 0, id="a row is missing"),
        pytest.param([A, B, B], 0, 1, 0, id="a row is there twice"),
        pytest.param([A, A, A], 1, 2, 0, id="one lost and one there three times"),
        pytest.param([A, B, C], 0, 0, 1, id="a row nobody expects"),
        pytest.param([], 2, 0, 0, id="nothing was written"),
    ],
)
def test_every_difference_is_counted_by_its_kind(
    found: list[str], lost: int, doubled: int, wrong: int
) -> None:
    result = compare([(A, 1), (B, 1)], sorted(Counter(found).items()))

    assert (result["lost"], result["doubled"], result["wrong"]) == (lost, doubled, wrong)
    assert (result["expected"], result["found"]) == (2, len(found))
