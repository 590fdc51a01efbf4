"""Generated edits of user code: none that changes an output has an equal closure, most harmless ones have."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

EDITS = "150"
COUNT = re.compile(r"'([a-z ]+)': (\d+)")


@pytest.mark.nightly("It runs some hundred processes.")
def test_no_edit_that_changes_an_output_is_allowed() -> None:
    command = [sys.executable, "-m", "tests.corpus.generate", "--seed", "5", "--edits", EDITS]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    *_, last = told.splitlines()
    counts = {name: int(count) for name, count in COUNT.findall(last)}
    allowed, refused = counts["harmless same allowed"], counts.get("harmless same not", 0)

    assert "FALSE" not in told
    assert counts["other not"] > 20
    assert allowed >= 4 * refused
