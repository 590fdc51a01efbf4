from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, so that nobody has to wait until bytes are on the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
