"""What several verifications of one backup come to."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.vault.backup_trust import BackupTrust, LastWord, last_word
from airflow_streaming.model.arguments.choices import Level
from tests.unit.checkpoints.backups import a_backup, torn, verified

TORN = None
"""The record of a verification that cannot be read."""
QUICK, FULL, DRILL = Level.QUICK, Level.FULL, Level.DRILL


@pytest.mark.parametrize(
    ("words", "standing", "level"),
    [
        pytest.param([], BackupTrust.UNVERIFIED, None, id="nothing"),
        pytest.param([(QUICK, "")], BackupTrust.UNVERIFIED, QUICK, id="quick"),
        pytest.param([(FULL, ""), (QUICK, "")], BackupTrust.VERIFIED, FULL, id="full, then quick"),
        pytest.param([(DRILL, ""), (FULL, "")], BackupTrust.VERIFIED, DRILL, id="drill, then full"),
        pytest.param(
            [(FULL, "flip"), (QUICK, "")], BackupTrust.DAMAGED, FULL, id="quickly forgiven"
        ),
        pytest.param(
            [(FULL, "flip"), (QUICK, "gone"), (QUICK, "")],
            BackupTrust.DAMAGED,
            FULL,
            id="gone and back",
        ),
        pytest.param(
            [(QUICK, "gone"), (FULL, "flip")], BackupTrust.DAMAGED, FULL, id="deeper damage"
        ),
        pytest.param([(FULL, ""), (QUICK, "gone")], BackupTrust.DAMAGED, QUICK, id="gone since"),
        pytest.param([(QUICK, "gone"), (QUICK, "")], BackupTrust.UNVERIFIED, QUICK, id="back"),
        pytest.param([(DRILL, "no"), (FULL, "")], BackupTrust.DAMAGED, DRILL, id="drill failed"),
        pytest.param([(FULL, "flip"), (FULL, "")], BackupTrust.VERIFIED, FULL, id="mended"),
        pytest.param([TORN], BackupTrust.UNKNOWN, None, id="unreadable"),
        pytest.param([(FULL, ""), TORN], BackupTrust.UNKNOWN, None, id="unreadable since"),
        pytest.param(
            [(FULL, ""), TORN, (QUICK, "")], BackupTrust.UNKNOWN, None, id="unreadable, then quick"
        ),
        pytest.param([TORN, (FULL, "")], BackupTrust.VERIFIED, FULL, id="read again in full"),
        pytest.param([TORN, (QUICK, "gone")], BackupTrust.DAMAGED, QUICK, id="gone as well"),
        pytest.param([(FULL, "flip"), TORN], BackupTrust.DAMAGED, FULL, id="damaged before"),
    ],
)
def test_the_newest_word_of_the_deepest_level_counts(
    words: list[tuple[Level, str] | None], standing: BackupTrust, level: Level | None
) -> None:
    backup = a_backup(0)
    said = [
        torn(backup) if word is None else verified(backup, word[0], *filter(None, word[1:]))
        for word in words
    ]

    assert last_word(said) == LastWord(standing, level)


@pytest.mark.parametrize(
    ("faults", "standing"),
    [
        pytest.param(["", "flip"], BackupTrust.DAMAGED, id="damaged last"),
        pytest.param(["flip", ""], BackupTrust.VERIFIED, id="whole last"),
    ],
)
def test_a_verifier_whose_clock_is_ahead_does_not_have_the_last_word(
    faults: list[str], standing: BackupTrust
) -> None:
    backup = a_backup(0)
    said = [
        verified(backup, FULL, *filter(None, [fault]), after=hours)
        for fault, hours in zip(faults, (2, 1), strict=True)
    ]

    assert last_word(said).standing is standing
