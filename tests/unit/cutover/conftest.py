from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """No power is cut in these tests, so nothing has to reach the disk."""
    # Not by the fixture monkeypatch: asked for here, it would undo a test's own patches too late.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr("os.sync", lambda: None)
        yield
