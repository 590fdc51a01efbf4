"""
A queue of test files that several runs of pytest share, so that all of them end at about the same time.

    TEST_QUEUE=FOLDER python -m pytest -p tests.shared_queue tests/integration

Every run collects all tests, and then takes one file after the other: it creates the file's name in the
folder of the queue, which one of them can do. Those that take long come first.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.costs import read_costs

FOLDER: Final = "TEST_QUEUE"
TOGETHER: Final = {
    "tests/integration/pipelines/": "tests/integration/pipelines/",  # they share a Spark
    "tests/unit/test_language.py": "tests/unit/test_house.py",  # both look at the syntax of all modules
}
"""Files that are taken together, by how their names begin, and what they are taken as."""


def name_of(test: str) -> str:
    """Return what a test is taken as: its file, or several of them."""
    file = test.partition("::")[0]
    return next((name for begin, name in TOGETHER.items() if file.startswith(begin)), file)


def in_order(
    tests: Sequence[str], costs: Mapping[str, float] | None = None
) -> dict[str, list[int]]:
    """Return the places of tests by what they are taken as, what takes longest first."""
    found: dict[str, list[int]] = {}
    for place, test in enumerate(tests):
        found.setdefault(name_of(test), []).append(place)
    seconds: Counter[str] = Counter()
    for file, cost in (read_costs() if costs is None else costs).items():
        seconds[name_of(file)] += cost  # type: ignore[assignment]
    return dict(sorted(found.items(), key=lambda item: -seconds[item[0]]))


def taken(queue: Mapping[str, list[int]], folder: Path) -> Iterator[list[int]]:
    """Take one after the other of those that nobody has taken; yield the places of their tests."""
    for name, places in queue.items():
        try:
            (folder / name.replace("/", "|")).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield places


class OnlyTheSession:
    """In place of the next test: what belongs to the session stays, and all else is torn down."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[Any]:
        return [self._session]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of each file that this run takes."""
    if has_nothing_to_run(session):
        return None  # as ever
    run_taken(session, Path(os.environ[FOLDER]))
    return True


def has_nothing_to_run(session: pytest.Session) -> bool:
    """Tell whether the tests are only collected, or could not be."""
    options = session.config.option
    has_failed = session.testsfailed and not options.continue_on_collection_errors
    return bool(options.collectonly or has_failed)


def run_taken(session: pytest.Session, folder: Path) -> None:
    """
    Run the tests of each file that this run takes from a queue.

    :raises session.Failed: as many failed as end a run.
    """
    items = session.items
    for places in taken(in_order([item.nodeid for item in items]), folder):
        following: list[Any] = [items[place] for place in places[1:]]
        for place, after in zip(places, [*following, OnlyTheSession(session)], strict=True):
            item = items[place]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
