from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.driver.monitoring.failed_batch import offsets_of
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


def log(checkpoint: Path, entry: str, *files: tuple[str, int]) -> None:
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": path, "timestamp": 1, "batchId": number}) for path, number in files
    ]
    (folder / entry).write_text("\n".join(["v1", *lines]))


def test_the_files_of_a_batch_are_named(checkpoint: Path) -> None:
    plan(checkpoint, 7, HEAD + '{"logOffset":8}')
    plan(checkpoint, 8, HEAD + '{"logOffset":10}')
    log(checkpoint, "8", ("file:///in/old.json", 8))
    log(checkpoint, "9.compact", ("file:///in/old.json", 8), ("file:///in/a.json", 9))
    log(checkpoint, "10", ("file:///in/b.json", 10))

    (span,) = offsets_of(LocalStore(str(checkpoint)), 8)

    assert span == '{"logOffset":8} -> {"logOffset":10} = "file:///in/a.json", "file:///in/b.json"'


@pytest.mark.parametrize(
    ("files", "ending"),
    [
        (1, '"f000000000000000000000000000000000000000"'),
        (30, " more"),
        (0, '{"logOffset":0}'),
    ],
)
def test_files_are_named_as_far_as_there_is_room(checkpoint: Path, files: int, ending: str) -> None:
    plan(checkpoint, 0, HEAD + '{"logOffset":0}')
    log(checkpoint, "0", *((f"f{number:039d}", 0) for number in range(files)))

    (span,) = offsets_of(LocalStore(str(checkpoint)), 0)

    assert len(span) <= 500
    assert span.endswith(ending)
    named = span.count('"f0')
    assert files == named or span.endswith(f" and {files - named} more")


def test_a_path_that_is_too_long_is_counted(checkpoint: Path) -> None:
    plan(checkpoint, 0, HEAD + '{"logOffset":0}')
    log(checkpoint, "0", ("x" * 600, 0))

    assert offsets_of(LocalStore(str(checkpoint)), 0) == ('- -> {"logOffset":0} = 1 file',)


@pytest.mark.parametrize("text", ["", "v9\n{}", "v1\nnot json", "v1\n[]"])
def test_a_damaged_log_costs_the_names_alone(checkpoint: Path, text: str) -> None:
    plan(checkpoint, 0, HEAD + '{"logOffset":0}')
    log(checkpoint, "0")
    (checkpoint / "sources" / "0" / "0").write_text(text)

    assert offsets_of(LocalStore(str(checkpoint)), 0) == ('- -> {"logOffset":0}',)


def test_no_more_than_twenty_entries_are_read_for_a_failed_batch(checkpoint: Path) -> None:
    plan(checkpoint, 0, HEAD + '{"logOffset":999999999999}')
    for entry in range(25):
        log(checkpoint, str(entry), (f"f{entry}", entry))

    (span,) = offsets_of(LocalStore(str(checkpoint)), 0)

    assert '"f19"' in span
    assert '"f20"' not in span
