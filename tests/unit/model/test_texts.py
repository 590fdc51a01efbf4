from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_streaming.model.records.control import Desired, DesiredState
from airflow_streaming.model.texts import one_line, printable

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown", "line"),
    [
        ("Topic is back.", "Topic is back.", "Topic is back."),
        ("größe 🚀", "größe 🚀", "größe 🚀"),
        ("a\nERROR b\r\nc", "a\nERROR b\ufffd\nc", "a ERROR b c"),
        ("\x1b[2Jgone", "\ufffd[2Jgone", "\ufffd[2Jgone"),
        ("abc\u202etxt.exe", "abc\ufffdtxt.exe", "abc\ufffdtxt.exe"),
        ("a\u2066b\u200fc\x00", "a\ufffdb\ufffdc\ufffd", "a\ufffdb\ufffdc\ufffd"),
        ("a\u2028b\x85c", "a\ufffdb\ufffdc", "a\ufffdb\ufffdc"),
    ],
)
def test_nothing_of_a_text_acts_on_its_reader(text: str, shown: str, line: str) -> None:
    assert printable(text) == shown
    assert one_line(text) == line


def test_a_record_neither_writes_a_secret_nor_reads_an_escape() -> None:
    desired = Desired(
        number=1, state=DesiredState.STOPPED, by="kim", reason="pw=hunter2 \x1b[2J", at=NOON
    )

    assert b"hunter2" not in desired.to_bytes()
    assert Desired.from_bytes(desired.to_bytes()).reason == "pw=(redacted) \ufffd[2J"
    assert Desired.from_dict(desired.to_dict()).reason == "pw=hunter2 \ufffd[2J"
