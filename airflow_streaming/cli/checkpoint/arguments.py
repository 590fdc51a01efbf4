"""The arguments of ``airflow-streaming checkpoint``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias

from airflow_streaming.cli.argument_types import pair, place
from airflow_streaming.core.checkpoint.backup import Level
from airflow_streaming.core.checkpoint.replay import ACCEPTABLE, RefusalCode

Kinds: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_OF_A_HOME: Final = frozenset({"backup", "restore", "undo", "abandon"})

_EPILOGS: Final = {
    "list": "Exit codes: 0 all right, 1 a backup is damaged or the store cannot be read, 2 wrong use.",
    "verify": "Exit codes: 0 it holds, 1 it does not or cannot be read, 2 wrong use; a drill "
    "without a Spark that fits is that.",
    "restore": "Exit codes: 0 it is restored, or with --dry-run could be; 1 it is refused or cannot "
    "be read; 2 wrong use, and so is a place inside a checkpoint or a backup store.",
}

_ONE_OR_SEVERAL: Final = "checkpoint of one query, or the folder above those of one application"


def add_verbs(parser: argparse.ArgumentParser, person: Callable[..., None]) -> None:
    """
    Add every verb and its arguments.

    :param person: Adds the arguments that say who acts and why.
    """
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _inspect(kinds)
    _backup(kinds, person)
    _list(kinds)
    _verify(kinds, person)
    _restore(kinds, person)
    _undo(kinds, person)
    _abandon(kinds, person)
    _clone(kinds)
    _carry_over(kinds)
    _retain(kinds, person)


def needs_home(arguments: argparse.Namespace) -> bool:
    """Tell whether a verb is about a stream of a home."""
    match arguments.verb:
        case "undo" | "abandon":
            return True
        case "restore":
            return arguments.stream is not None
        case "backup":
            return arguments.uri is None
        case _:
            return False


def _inspect(kinds: Kinds) -> None:
    verb = _verb(kinds, "inspect", "say what a checkpoint holds; exit code 1 with any problem")
    verb.add_argument("uri", type=place, metavar="URI", help=_ONE_OR_SEVERAL)
    verb.add_argument(
        "--thorough",
        action="store_true",
        help="look into all state files, and at every checksum; takes long for large state",
    )


def _backup(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "backup", "back up a checkpoint, while its query runs or not")
    verb.add_argument(
        "uri",
        type=place,
        nargs="?",
        metavar="URI",
        help=f"{_ONE_OR_SEVERAL}; none for a stream of the home",
    )
    verb.add_argument("--to", type=place, required=True, metavar="STORE", help="the backup store")
    verb.add_argument(
        "--stream",
        metavar="NAME",
        help="the stream of the home, or with a URI the name to file it under (default: one made "
        "of the URI)",
    )
    _add_sinks(verb, "whose log is to be taken too")
    person(verb)


def _list(kinds: Kinds) -> None:
    verb = _verb(kinds, "list", "list the backups of a store, oldest first")
    verb.add_argument("store", type=place, metavar="STORE")
    verb.add_argument("--stream", metavar="NAME", help="of this stream only")


def _verify(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "verify", "verify a backup; exit code 1 when it does not hold")
    verb.add_argument("store", type=place, metavar="STORE")
    verb.add_argument("backup_id", metavar="BACKUP_ID")
    verb.add_argument(
        "--level",
        choices=[str(level) for level in Level],
        default=str(Level.FULL),
        help="manifest and sizes, every byte, or with a real Spark (default: %(default)s)",
    )
    verb.add_argument(
        "--runtime",
        metavar="NAME_OR_PATH",
        help="the Spark of a drill (default: by version, of those in AIRFLOW__STREAMING__RUNTIMES)",
    )
    verb.add_argument(
        "--script", metavar="FILE", help="the stream's script; a drill runs one batch of it"
    )
    verb.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="TEXT",
        help="an argument of the script; may be repeated",
    )
    verb.add_argument(
        "--conf",
        action="append",
        default=[],
        type=pair,
        metavar="KEY=VALUE",
        help="Spark configuration of a drill; may be repeated; not for secrets",
    )
    person(verb)


def _restore(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "restore", "restore a backup into a new place")
    verb.add_argument("store", type=place, metavar="STORE")
    verb.add_argument("backup_id", metavar="BACKUP_ID")
    verb.add_argument(
        "--to", type=place, metavar="NEW_URI", help="where the checkpoints will lie; has to be free"
    )
    verb.add_argument(
        "--stream",
        metavar="NAME",
        help="have this stream of the home go on from the backup with its next start",
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="say what the restore means, and write nothing"
    )
    verb.add_argument(
        "--accept",
        action="append",
        default=[],
        type=_reason,
        choices=sorted(ACCEPTABLE),
        metavar="REASON",
        help="go on although this speaks against it: " + ", ".join(sorted(ACCEPTABLE)),
    )
    _add_sinks(verb, "whose log is to be compared (default: the one that the backup names)")
    person(verb)


def _undo(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "undo", "have a stream go on from the checkpoint it had before a restore")
    verb.add_argument("stream", metavar="STREAM", help="name of the stream")
    person(verb)


def _abandon(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "abandon", "give up a restore of a stream that was begun and not finished")
    verb.add_argument("stream", metavar="STREAM", help="name of the stream")
    person(verb)


def _clone(kinds: Kinds) -> None:
    verb = _verb(kinds, "clone", "copy a live checkpoint to a new place as a query of its own")
    _from_and_to(verb)
    verb.add_argument(
        "--keep-query-id", action="store_true", help="keep the id of the query, for a move"
    )


def _carry_over(kinds: Kinds) -> None:
    verb = _verb(
        kinds, "carry-over", "make a checkpoint that knows nothing but how far sources were read"
    )
    _from_and_to(verb)
    verb.add_argument(
        "--stateless",
        action="store_true",
        help="vouch that the query has no state, where the checkpoint does not tell",
    )
    verb.add_argument(
        "--source",
        action="append",
        metavar="NAME",
        help="for each source of the new query in turn, the old source it goes on from, or 'new'; "
        "to be repeated (default: as they were)",
    )


def _retain(kinds: Kinds, person: Callable[..., None]) -> None:
    verb = _verb(kinds, "retain", "remove the backups of a stream that no rule keeps")
    verb.add_argument("store", type=place, metavar="STORE")
    verb.add_argument("stream", metavar="STREAM", help="name of the stream in the store")
    for option, text in _RULES:
        verb.add_argument(option, type=_count, metavar="N", help=text)
    verb.add_argument("--dry-run", action="store_true", help="say what would go")
    person(verb)


_RULES: Final = (
    ("--keep-last", "the newest N"),
    ("--keep-for", "those of N days"),
    ("--daily", "the newest of each of N days"),
    ("--weekly", "the newest of each of N weeks"),
    ("--monthly", "the newest of each of N months"),
)


def _add_sinks(verb: argparse.ArgumentParser, what: str) -> None:
    verb.add_argument(
        "--sink",
        action="append",
        default=[],
        type=_sink,
        metavar="[QUERY=]URI",
        help=f"output folder of a file sink, {what}; may be repeated",
    )


def _from_and_to(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("uri", type=place, metavar="URI", help="checkpoint of one query")
    verb.add_argument(
        "--to", type=place, required=True, metavar="NEW_URI", help="a place that is free"
    )


def _verb(kinds: Kinds, name: str, text: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = kinds.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=_EPILOGS.get(name)
    )
    if name in _OF_A_HOME:
        about = "folder or URI with the records of all streams"
        verb.add_argument("--home", default=argparse.SUPPRESS, metavar="URI", help=about)
    verb.add_argument("--json", action="store_true", help="print JSON instead of text")
    return verb


def _sink(text: str) -> tuple[str, str]:
    query, found, uri = text.partition("=")
    return (query, place(uri)) if found and "/" not in query else ("", place(text))


def _reason(text: str) -> RefusalCode:
    try:
        return RefusalCode(text)
    except ValueError as err:
        known = ", ".join(sorted(ACCEPTABLE))
        raise argparse.ArgumentTypeError(f"{text!r} is none of {known}") from err


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)
