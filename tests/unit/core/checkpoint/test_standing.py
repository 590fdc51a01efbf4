"""What several verifications of one backup come to."""

from __future__ import annotations

import pytest

from airflow_streaming.core.checkpoint.backup import Level
from airflow_streaming.core.checkpoint.standing import LastWord, Standing, last_word
from tests.unit.core.checkpoint.backups import a_backup, verified

QUICK, FULL, DRILL = Level.QUICK, Level.FULL, Level.DRILL


@pytest.mark.parametrize(
    ("words", "standing", "level"),
    [
        pytest.param([], Standing.UNVERIFIED, None, id="nothing"),
        pytest.param([(QUICK, "")], Standing.UNVERIFIED, QUICK, id="quick"),
        pytest.param([(FULL, ""), (QUICK, "")], Standing.VERIFIED, FULL, id="full, then quick"),
        pytest.param([(DRILL, ""), (FULL, "")], Standing.VERIFIED, DRILL, id="drill, then full"),
        pytest.param([(FULL, "flip"), (QUICK, "")], Standing.DAMAGED, FULL, id="quickly forgiven"),
        pytest.param(
            [(FULL, "flip"), (QUICK, "gone"), (QUICK, "")],
            Standing.DAMAGED,
            FULL,
            id="gone and back",
        ),
        pytest.param([(QUICK, "gone"), (FULL, "flip")], Standing.DAMAGED, FULL, id="deeper damage"),
        pytest.param([(FULL, ""), (QUICK, "gone")], Standing.DAMAGED, QUICK, id="gone since"),
        pytest.param([(QUICK, "gone"), (QUICK, "")], Standing.UNVERIFIED, QUICK, id="back"),
        pytest.param([(DRILL, "no"), (FULL, "")], Standing.DAMAGED, DRILL, id="drill failed"),
        pytest.param([(FULL, "flip"), (FULL, "")], Standing.VERIFIED, FULL, id="mended"),
    ],
)
def test_the_newest_word_of_the_deepest_level_counts(
    words: list[tuple[Level, str]], standing: Standing, level: Level | None
) -> None:
    backup = a_backup(0)
    said = [verified(backup, one, *filter(None, [fault])) for one, fault in words]

    assert last_word(said) == LastWord(standing, level)


@pytest.mark.parametrize(
    ("faults", "standing"),
    [
        pytest.param(["", "flip"], Standing.DAMAGED, id="damaged last"),
        pytest.param(["flip", ""], Standing.VERIFIED, id="whole last"),
    ],
)
def test_a_verifier_whose_clock_is_ahead_does_not_have_the_last_word(
    faults: list[str], standing: Standing
) -> None:
    backup = a_backup(0)
    said = [
        verified(backup, FULL, *filter(None, [fault]), after=hours)
        for fault, hours in zip(faults, (2, 1), strict=True)
    ]

    assert last_word(said).standing is standing
