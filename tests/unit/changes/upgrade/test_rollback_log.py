from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.checkpoints.restore.sink_log import LogRewind, log_rewind, path_in_output
from airflow_streaming.exceptions import CheckpointRefused


@pytest.mark.parametrize(
    ("kept", "now", "batch", "expected"),
    [
        ("0 1", "0 1", 1, LogRewind(newest=1)),
        ("0 1", "0 1 2 3", 1, LogRewind(remove=("3", "2"), newest=3)),
        ("0 1", "0 1 2 3.compact 4 5", 1, LogRewind(remove=("2", "5", "4", "3.compact"), newest=5)),
        (
            "3.compact 4",
            "7.compact 8 11.compact 12",
            4,
            LogRewind(
                create=("4", "3.compact"),
                remove=("8", "7.compact", "12", "11.compact"),
                newest=12,
            ),
        ),
        ("", "0 1", -1, LogRewind(remove=("1", "0"), newest=1)),
        ("", "", -1, LogRewind()),
        ("0", "0 1 .1.crc 1.tmp 01 x", 0, LogRewind(remove=("1",), newest=1)),
    ],
    ids=[
        "nothing newer", "newer", "what nobody reads goes first", "old ones come back first",
        "nothing stays", "no log", "strange names do not matter",
    ],
)  # fmt: skip
def test_a_log_is_shortened_from_its_newest_end(
    kept: str, now: str, batch: int, expected: LogRewind
) -> None:
    assert log_rewind(kept.split(), now.split(), batch) == expected


@pytest.mark.parametrize(
    ("path", "output", "relative"),
    [
        ("file:///out/k=a%20b/part-0", "/out", "k=a b/part-0"),
        ("file:/out/part-0", "file:///out/", "part-0"),
        ("file:///o%20ut/k=a%253Ab/part-0", "/o ut", "k=a%3Ab/part-0"),
        ("s3a://bucket/out/part-0", "s3://bucket/out", "part-0"),
        ("hdfs://nn:8020/out/part-0", "hdfs:///out", "part-0"),
    ],
    ids=["escaped", "one slash", "escaped twice", "object store", "name node"],
)
def test_a_files_path_is_told_relative_to_the_output(path: str, output: str, relative: str) -> None:
    assert path_in_output(path, output) == relative


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("file:///out2/part-0", "/out"),
        ("file:///out", "/out"),
        ("file:///out/%2E%2E/etc/passwd", "/out"),
        ("s3a://other/out/part-0", "s3://bucket/out"),
        ("hdfs://nn/elsewhere/part-0", "hdfs:///out"),
    ],
    ids=["beside", "itself", "climbing", "another bucket", "another folder"],
)
def test_a_file_that_lies_elsewhere_is_refused(path: str, output: str) -> None:
    with pytest.raises(CheckpointRefused, match="is not in that folder"):
        path_in_output(path, output)


def entry(batch: int, interval: int) -> str:
    return f"{batch}.compact" if (batch + 1) % interval == 0 else str(batch)


def is_readable(names: set[str], interval: int) -> bool:
    """Tell whether a reader of Spark finds every entry that it looks for."""
    numbers = [int(name.removesuffix(".compact")) for name in names]
    newest = max(numbers)
    start = max(0, (newest + 1) // interval * interval - 1)
    return {entry(batch, interval) for batch in range(start, newest + 1)} <= names


@given(
    boundary=st.integers(0, 25),
    more=st.integers(0, 25),
    expired=st.integers(0, 50),
    interval=st.integers(2, 10),
)
@settings(max_examples=150)
def test_at_every_step_a_reader_finds_a_whole_log(
    boundary: int, more: int, expired: int, interval: int
) -> None:
    newest = boundary + more
    start = max(0, (boundary + 1) // interval * interval - 1)
    kept = {entry(batch, interval) for batch in range(start, boundary + 1)}
    compacted = (newest + 1) // interval * interval - 1
    first = min(expired, max(0, compacted))
    names = {entry(batch, interval) for batch in range(first, newest + 1)}
    steps = log_rewind(kept, names, boundary)
    before = newest
    names |= set(steps.create)
    for name in steps.remove:
        assert is_readable(names, interval)
        names.remove(name)
        now = max(int(other.removesuffix(".compact")) for other in names)
        assert boundary <= now <= before
        before = now
    assert is_readable(names, interval)
    assert kept <= names
    assert before == boundary
