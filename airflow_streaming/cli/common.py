"""Shared by several commands: exit codes, the acting user, and arguments with their types."""

from __future__ import annotations

import argparse
import getpass
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.names import Color
from airflow_streaming.model.records.change_table import ChangeTable
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.texts import one_line
from airflow_streaming.model.uris import in_full, lacks_slashes

OK: Final = 0
PROBLEM: Final = 1
WRONG_USE: Final = 2
INCONCLUSIVE: Final = 3
HOME_VARIABLE: Final = "AIRFLOW_STREAMING_HOME"

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """
    The acting user, and the reason.

    :param says_why: The command gave the reason.
    """

    name: str
    reason: str
    says_why: bool = True


def person_of(arguments: argparse.Namespace) -> Person:
    """Return the acting user by a command's arguments; read-only commands have none of them."""
    given = getattr(arguments, "reason", None)
    return Person(
        name=getattr(arguments, "by", None) or _user(),
        reason="No reason given." if given is None else one_line(mask_secrets(given)),
        says_why=given is not None,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container often runs under a number that has no name.
        return f"user {os.getuid()}"


def add_commands(
    parser: argparse.ArgumentParser,
    table: ChangeTable[Any, Any],
    *,
    status: str,
    whose: str,
) -> dict[str, argparse.ArgumentParser]:
    """
    Declare ``status`` and the commands of a kind of change, as its table has them.

    :param status: What ``status`` shows.
    :param whose: Which stream is to be named.
    :return: The parser of each command, for options of its own.
    """
    values = {"status": status, **{name: one.help for name, one in table.commands.items()}}
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs = {}
    for name, text in values.items():
        verb = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        add_home(verb)
        verb.add_argument("stream", metavar="STREAM", help=whose)
        add_json(verb)
        if name in table.commands:
            add_person(verb)
        verbs[name] = verb
    return verbs


def place(text: str) -> str:
    """
    Return a full URI, and a path as an absolute one: users work in a folder.

    A text that only looks like a URI, e.g. ``s3:/bucket``, is left for the code that opens it to
    refuse; otherwise a folder called ``s3:`` would be created. ``./s3:/bucket`` is that folder.

    :raises argparse.ArgumentTypeError: a relative path, and the current folder was removed.
    """
    try:
        return place_of(text)
    except SpecError as err:
        raise argparse.ArgumentTypeError(str(err).rstrip(".")) from err


def place_of(text: str) -> str:
    """
    Like ``place``, for a text from elsewhere than an argument.

    :raises SpecError: a relative path, and the current folder was removed.
    """
    uri = in_full(text)
    if "://" in uri or lacks_slashes(uri) or not uri.strip():
        return uri
    try:
        return os.path.abspath(text)  # noqa: PTH100 - pathlib would follow links
    except OSError as err:
        raise SpecError(
            f"{text!r} is a relative path, and the current folder cannot be found "
            f"({err.strerror or err}). Change to a folder that exists, or give an absolute path."
        ) from err


def pair(text: str) -> tuple[str, Any]:
    """Return ``key=value`` as a pair."""
    key, found, value = text.partition("=")
    if not key:
        raise argparse.ArgumentTypeError(f"{text!r} has no key; write KEY=VALUE")
    if not found:
        raise argparse.ArgumentTypeError(f"{key!r} has no value; write {key}=VALUE")
    return key, value


def said(text: str) -> str:
    """Return a text that says something."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty; say it, or leave the option out")
    return text


def number(
    least: float, most: float, unit: str = "", *, is_whole: bool = False
) -> Callable[[str], Any]:
    """
    Return a type of arguments: a number between two bounds, both allowed.

    :param unit: The unit, for the message of a refusal.
    """
    kind = f"{'a whole number' if is_whole else 'a number'}{f' of {unit}' if unit else ''}"

    form = _WHOLE if is_whole else _NUMBER

    def parse(text: str) -> float:
        # Python also takes 1_0, digits of other scripts, and digits without an end.
        is_number = form.fullmatch(text) is not None
        found = (int(text) if is_whole else float(text)) if is_number else math.nan
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r:.80} is not {kind} from {least:,.10g} to {most:,.10g}"
            )
        return found

    return parse


seconds: Final = number(0, 10_000_000, "seconds")
hours: Final = number(0.0001, 87_600, "hours")
count: Final = number(0, 1_000_000, is_whole=True)
positive: Final = number(1, 1_000_000, is_whole=True)


def duration(text: str) -> timedelta:
    """Return a number of seconds as a duration."""
    return timedelta(seconds=seconds(text))


def moment(text: str) -> datetime:
    """Return a time in ISO 8601 with a zone."""
    try:
        return parse_time(text, "time")
    except RecordError as err:
        raise argparse.ArgumentTypeError(str(err)) from err


def add_home(parser: argparse.ArgumentParser, default: str | None = argparse.SUPPRESS) -> None:
    """Add ``--home``; the option after the command does not override one before it."""
    parser.add_argument(
        "--home",
        default=default,
        metavar="URI",
        help="home with the records of all streams: an absolute path or a URL such as "
        f"s3://bucket/streams (default: ${HOME_VARIABLE})",
    )


def add_select(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--select``; ``what`` says what happens to the streams."""
    parser.add_argument(
        "--select",
        metavar="SELECTOR",
        help=f"{what}, e.g. 'team=payments,spark=3.5*,!tier'",
    )


def add_stream(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add the stream that a command is about, and which lane of it."""
    parser.add_argument(
        "stream", nargs="?" if is_optional else None, metavar="STREAM", help="name of the stream"
    )
    parser.add_argument(
        "--color",
        choices=[color.value for color in Color],
        help="act on the blue or the green lane (default: the lane that is live)",
    )


def add_person(parser: argparse.ArgumentParser, *, must_say_why: bool = False) -> None:
    """Add who acts and why."""
    who = parser.add_argument_group("for the record")
    who.add_argument(
        "--by", type=said, metavar="NAME", help="who acts (default: the user of this process)"
    )
    why = "reason, for the stream's timeline"
    who.add_argument(
        "--reason",
        type=said,
        required=must_say_why,
        metavar="TEXT",
        help=f"{why} (required)" if must_say_why else why,
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add ``--report`` and ``--json``."""
    parser.add_argument(
        "--report",
        type=writable_file,
        metavar="FILE",
        help="also write the report to FILE, as Markdown",
    )
    add_json(parser)


def writable_file(text: str) -> Path:
    """
    Return the path of a file that can be written, before the work whose result it takes.

    :raises argparse.ArgumentTypeError: it is a folder, or this process may not write there.
    """
    path = Path(text)
    folder = os.path.dirname(os.path.abspath(text))  # noqa: PTH100, PTH120 - they do not raise
    place = text if os.path.exists(text) else folder  # noqa: PTH110
    if os.path.isdir(text):  # noqa: PTH112
        raise argparse.ArgumentTypeError(f"{text!r:.200} is a folder; name a file")
    if not os.access(place, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"{text!r:.200} cannot be written: {place} does not exist or is read-only; name another file"
        )
    return path


def add_runtime(parser: argparse.ArgumentParser, what: str, *, required: bool = True) -> None:
    """Add ``--runtime``; ``what`` says what its Spark does."""
    parser.add_argument(
        "--runtime",
        required=required,
        metavar="NAME_OR_PATH",
        help=f"Spark that {what}: a name in AIRFLOW__STREAMING__RUNTIMES, or the folder of a "
        "virtual environment or of a SPARK_HOME",
    )


def add_repeated(
    container: argparse._ActionsContainer,
    option: str,
    metavar: str,
    text: str,
    kind: Callable[[str], Any] = str,
) -> None:
    """Add a repeatable option; its value is a list, empty by default."""
    container.add_argument(
        option, action="append", default=[], type=kind, metavar=metavar, help=text
    )


def add_conf(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--conf``; ``what`` says whose configuration it is."""
    text = f"Spark configuration of {what}; repeatable; not for secrets"
    add_repeated(parser, "--conf", "KEY=VALUE", text, pair)


def add_script_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a script, which stand last, after ``--``."""
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="ARGUMENT",
        help="arguments of the script, after --",
    )
