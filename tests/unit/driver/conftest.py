"""Modules of other tests are hidden from the tests of the driver."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Leave the modules that a driver could have loaded.

    The closure of a function for batches holds every loaded module that belongs to the user. A run of all
    tests has loaded 800 modules of tests, which take 40 s.
    """
    for name in [*sys.modules]:
        if name.startswith("tests.unit.") and not name.startswith("tests.unit.driver"):
            monkeypatch.delitem(sys.modules, name)
