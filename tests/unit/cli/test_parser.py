"""Options and positional arguments of every command, in any order."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from airflow_streaming.cli.parser import build_parser, parsed
from tests.unit.cli.commands import leaves


def leaf_of(words: tuple[str, ...]) -> argparse.ArgumentParser:
    parser: Any = build_parser()
    for word in words:
        [sub] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        parser = sub.choices[word]
        [*leaves(parser)]
    return parser  # type: ignore[no-any-return]


def positionals_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [*parser._get_positional_actions()]


COMMANDS = [*leaves(build_parser())]
SEVERAL = [words for words in COMMANDS if len(positionals_of(leaf_of(words))) > 1]


def test_commands_with_several_positional_arguments_are_found() -> None:
    assert ("checkpoint", "verify") in SEVERAL
    assert ("checkpoint", "delete") in SEVERAL


@pytest.mark.parametrize("words", SEVERAL, ids=" ".join)
def test_an_option_may_stand_between_any_two_arguments(words: tuple[str, ...]) -> None:
    leaf = leaf_of(words)
    given = [_example(one) for one in positionals_of(leaf)]
    needed = [one for one in leaf._get_optional_actions() if one.required]
    needed += [one._group_actions[0] for one in leaf._mutually_exclusive_groups if one.required]
    options = [text for one in needed for text in (one.option_strings[-1], _example(one))]
    options = [*options, *(["--reason", "why"] if "--reason" in leaf.format_help() else ["--json"])]
    at_the_end = vars(parsed(build_parser(), [*words, *given, *options]))

    for place in range(len(given) + 1):
        mixed = [*given[:place], *options, *given[place:]]
        assert vars(parsed(build_parser(), [*words, *mixed])) == at_the_end, mixed


def _example(action: argparse.Action) -> str:
    return str(next(iter(action.choices))) if action.choices else "/a"


def test_a_word_too_many_and_an_unknown_option_are_refused(capsys: Any) -> None:
    for given in (
        ["/s", "id", "--no-such"],
        ["/s", "--no-such", "id"],
        ["/s", "id", "--json", "x"],
    ):
        with pytest.raises(SystemExit):
            parsed(build_parser(), ["checkpoint", "verify", *given])
        assert "unrecognized arguments" in capsys.readouterr().err
