"""
``airflow-streaming doctor``: what is risky about how a stream is set up.

It reads the home, and of each query's checkpoint the newest file of the offset log; it starts
nothing and writes nothing. What cannot be read is said, and is no risk by itself.
"""

from __future__ import annotations

import json
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.cli.conf import WIDTH
from airflow_streaming.cli.facts import gather
from airflow_streaming.cli.person import OK, PROBLEM
from airflow_streaming.cli.table import printable
from airflow_streaming.core.codec import encode
from airflow_streaming.core.doctor.doctor import examine, risks
from airflow_streaming.core.doctor.facts import Advice, Outcome
from airflow_streaming.home.home import Home, StreamHome

_INDENT: Final = "    "


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--cores", type=_cores, metavar="N", help="cores of all executors, where conf has them not"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _cores(text: str) -> int:
    cores = int(text)
    if not 0 < cores <= 1_000_000:
        raise ValueError(text)
    return cores


def show_advice(home: Home, stream: StreamHome, *, cores: int | None, as_json: bool) -> int:
    """Examine a stream and print what was found; a risk is a problem."""
    said = examine(gather(home, stream, cores))
    if as_json:
        print(
            json.dumps({"stream": stream.name, "advice": [encode(one) for one in said]}, indent=2)
        )
    else:
        print("\n".join(printable(line) for line in _lines(stream.name, said)))
    return PROBLEM if risks(said) else OK


def _lines(stream: str, said: Sequence[Advice]) -> Iterator[str]:
    found = risks(said)
    missing = [one for one in said if one.outcome is Outcome.UNKNOWN]
    clean = [one for one in said if one.outcome is Outcome.FINE]
    yield f"{stream}: {_count(len(found), 'risk')} found."
    for one in found:
        yield from ("", f"{str(one.level).upper()}  {_subject(one)}")
        yield from _wrapped(one.what)
        yield from _wrapped(f"Seen: {one.evidence}")
        yield from _wrapped(f"Do:   {one.remedy}")
    if missing:
        yield from ("", "Could not be examined")
    for one in missing:
        yield from _wrapped(f"{_subject(one)}: {one.what} {one.remedy}".rstrip())
    if clean:
        yield from ("", "Nothing risky")
    for one in clean:
        yield from _wrapped(f"{_subject(one)}: {one.what}")


def _subject(one: Advice) -> str:
    return one.rule if one.query is None else f"{one.rule}, query {one.query}"


def _count(number: int, thing: str) -> str:
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_on_hyphens=False,
        break_long_words=False,
    )
