"""
The seconds that each test file takes, kept in ``tests/costs.txt``.

``make test`` records them in ``.test-costs.txt`` and ``make costs`` renews the list from there. The queue of test
files begins with the longest, and ``make check`` skips the files that take more than ``--at-most`` seconds.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

LISTED: Final = Path(__file__).with_name("costs.txt")
RECORDED: Final = LISTED.parent.parent / ".test-costs.txt"
LEAST_LISTED: Final = 0.5
"""Seconds; the list leaves out cheaper files."""


def read_costs(file: Path = LISTED) -> dict[str, float]:
    """Return the seconds of each file; a file that several runs recorded has the sum."""
    costs: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        seconds, name = line.split()
        costs[name] += float(seconds)  # type: ignore[assignment]
    return dict(costs)


def printed(costs: Mapping[str, float]) -> str:
    """Return one line a file, the longest first."""
    listed = sorted(costs.items(), key=lambda item: (-item[1], item[0]))
    return "".join(
        f"{seconds:7.1f} {name}\n" for name, seconds in listed if seconds >= LEAST_LISTED
    )


class Recorder:
    """Sums the durations of tests by their files."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        if not os.environ.get("PYTEST_XDIST_WORKER"):
            with RECORDED.open("a") as file:
                file.write(printed(self._seconds))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--at-most", type=float, help="Skip the test files that take more seconds.")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.at_most is None:
        config.pluginmanager.register(Recorder())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    most, root = config.option.at_most, LISTED.parent.parent
    if most is None or not collection_path.is_relative_to(root):
        return None
    name = collection_path.relative_to(root).as_posix()
    return _listed().get(name, 0) > most or None


def pytest_report_header(config: pytest.Config) -> str | None:
    if (most := config.option.at_most) is None:
        return None
    skipped = sum(seconds > most for name, seconds in read_costs().items() if "/unit/" in name)
    return f"{skipped} files that take more than {most:g} s are left to make test"


@functools.cache
def _listed() -> dict[str, float]:
    return read_costs()


if __name__ == "__main__":
    LISTED.write_text(printed(read_costs(RECORDED)))
