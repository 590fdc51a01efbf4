from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring.queries import offsets_of
from airflow_streaming.model.storage import LocalStore

HEAD = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    return tmp_path


def plan(checkpoint: Path, batch: int, text: str) -> None:
    (checkpoint / "offsets" / str(batch)).write_text(text)


@pytest.mark.parametrize(
    ("before", "planned", "expected"),
    [
        pytest.param(
            HEAD + '{"logOffset":3}\n-',
            HEAD + '{"logOffset":4}\n{"t":{"0":9}}',
            ('{"logOffset":3} -> {"logOffset":4}', '- -> {"t":{"0":9}}'),
            id="two sources",
        ),
        pytest.param(None, HEAD + "7", ("- -> 7",), id="the plan before is gone"),
        pytest.param(
            'v2\n{"conf":{}}\na:{"logOffset":3}\nold:1',
            'v2\n{"conf":{}}\na:{"logOffset":4}\nb:5',
            ('a: {"logOffset":3} -> {"logOffset":4}', "b: - -> 5"),
            id="named sources",
        ),
        pytest.param(
            'v2\n{"conf":{}}\n0:{"x":3}',
            'v2\n{"conf":{}}\n0:{"x":4}',
            ('{"x":3} -> {"x":4}',),
            id="the second format without names",
        ),
        pytest.param(None, "v9\n{}\n7", (), id="a later format"),
        pytest.param(None, "", (), id="an empty file"),
        pytest.param(None, None, (), id="not planned"),
    ],
)
def test_the_offsets_of_a_planned_batch(
    checkpoint: Path, before: str | None, planned: str | None, expected: tuple[str, ...]
) -> None:
    for batch, text in ((4, before), (5, planned)):
        if text is not None:
            plan(checkpoint, batch, text)
    assert offsets_of(LocalStore(str(checkpoint)), 5) == expected


def test_a_text_is_cut_so_that_both_ends_are_seen(checkpoint: Path) -> None:
    plan(checkpoint, 0, HEAD + "1" * 900)
    plan(checkpoint, 1, HEAD + "2" * 900)
    (span,) = offsets_of(LocalStore(str(checkpoint)), 1)
    start, _, end = span.partition(" -> ")
    assert len(span) <= 500
    assert start == "1" * 245 + "..."
    assert end == "2" * 245 + "..."
