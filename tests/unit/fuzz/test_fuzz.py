"""
Whatever bytes a parser is given, it answers or refuses, soon and in little memory, and opens nothing.

A minute of it belongs to the unit tests; ``make fuzz`` looks for as long as it is told to. With
``FUZZ_COUNTS`` a line with the reads and the refusals of every parser is added to that file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.fuzz.parsers import MIB, PARSERS, Parser

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "0"))
COUNTS: Final = os.environ.get("FUZZ_COUNTS", "")
_tried: Final[Counter[bool]] = Counter()
"""Reads, by whether they were refused, of the parser that is tried now."""
quick: Final = settings(
    max_examples=EXAMPLES or 30,
    deadline=None,
    database=None,
    # The same ones every time, but for whoever looks for longer.
    derandomize=not EXAMPLES,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
MOST_SECONDS: Final = 2.0
"""Of the processor. The slowest valid file takes a tenth of it."""
OUTSIDE: Final = ("open", "os.", "socket.", "subprocess.", "shutil.", "import", "exec", "compile")


class _Watch:
    """Notes what a thread does outside itself while it is told to."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._is_set = False
        self._watching = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Nearly always nobody watches, and Python tells of each frame that is looked at.
        if not self._watching:
            return
        seen = getattr(self._here, "seen", None)
        # A zone's name is checked, and its rules lie in a file of Python's.
        is_zone = event == "open" and "/zoneinfo/" in str(arguments[0])
        if seen is not None and event.startswith(OUTSIDE) and not is_zone:
            seen.append(f"{event} {arguments!r:.200}")

    @contextmanager
    def on(self) -> Iterator[list[str]]:
        if not self._is_set:
            # A hook of the interpreter stays; it costs nothing worth while nothing is watched.
            sys.addaudithook(self)
            self._is_set = True
        self._here.seen = seen = []
        self._watching += 1
        try:
            yield seen
        finally:
            self._watching -= 1
            self._here.seen = None


watch: Final = _Watch()


def attempt(parser: Parser, data: bytes | str) -> None:
    """Parse, and hold it to its promises."""
    begun = time.thread_time()
    with watch.on() as opened:
        refused = _refused(parser, data)
    taken = time.thread_time() - begun
    _tried[refused is not None] += 1
    assert refused is None or str(refused), "It was refused without a word."
    assert opened == [], f"It went outside: {opened}"
    assert taken < MOST_SECONDS, f"{len(data)} bytes took {taken:.1f} s."
    # Once more, as counting memory takes most of the time.
    peak = _peak(parser, data)
    assert peak < parser.most_mib * MIB + 20 * len(data), f"It took {peak / MIB:.0f} MiB."


def _peak(parser: Parser, data: bytes | str) -> int:
    tracemalloc.start()
    try:
        _refused(parser, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _refused(parser: Parser, data: bytes | str) -> Exception | None:
    try:
        parser.parse(data)
    except parser.refuses as err:
        return err
    return None


@pytest.mark.parametrize("name", PARSERS)
def test_anything_is_read_or_refused(name: str) -> None:
    parser = PARSERS[name]
    strategy = parser.given()

    @settings(quick, max_examples=max(5, int(parser.share * quick.max_examples)))
    @given(data=strategy)
    def try_it(data: Any) -> None:
        attempt(parser, data)

    _tried.clear()
    _warm_up(parser, strategy)
    for data in parser.always():
        attempt(parser, data)
    try_it()
    if COUNTS:
        told = {"parser": name, "reads": _tried.total(), "refused": _tried[True]}
        with Path(COUNTS).open("a") as file:
            file.write(f"{json.dumps(told)}\n")


def _warm_up(parser: Parser, strategy: st.SearchStrategy[Any]) -> None:
    """Have whatever is imported or compiled at first use imported before anything is watched."""

    @settings(quick, max_examples=8, phases=[Phase.generate])
    @given(data=strategy)
    def once(data: Any) -> None:
        # The test itself asks what it raises.
        with suppress(Exception):
            parser.parse(data)

    once()


def _take_too_long() -> None:
    until = time.thread_time() + MOST_SECONDS
    while time.thread_time() <= until:
        pass


@pytest.mark.parametrize(
    ("parse", "said"),
    [
        pytest.param(lambda data: open(os.devnull).close(), "outside", id="opens a file"),  # noqa: PTH123
        pytest.param(lambda data: bytearray(64 * MIB), "MiB", id="takes memory"),
        pytest.param(lambda data: _take_too_long(), " s", id="takes time"),
        pytest.param(lambda data: {}["no such key"], None, id="raises another error"),
    ],
)
def test_a_parser_that_breaks_a_promise_is_caught(
    parse: Any, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "MOST_SECONDS", 0.3)
    offender = Parser(parse=parse, given=st.binary)

    with pytest.raises(AssertionError if said else KeyError, match=said):
        attempt(offender, b"")
