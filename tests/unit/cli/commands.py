"""The commands of the command line, found by a walk through its parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from airflow_streaming.cli.parser import Parser


def leaves(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that has no subcommand."""
    if isinstance(parser, Parser) and parser.fill is not None:
        fill, parser.fill = parser.fill, None
        fill(parser)
    if parser._subparsers is None:
        yield words
        return
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, kind in action.choices.items():
                yield from leaves(kind, *words, name)
