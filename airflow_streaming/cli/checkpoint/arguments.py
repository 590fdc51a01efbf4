"""The arguments of ``airflow-streaming checkpoint``."""

from __future__ import annotations

import argparse
from argparse import Namespace
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from airflow_streaming.cli.common import (
    Person,
    add_conf,
    add_home,
    add_json,
    add_person,
    add_repeated,
    add_runtime,
    count,
    place,
)
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.choices import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_streaming.checkpoints.restore.replay import RefusalCode
    from airflow_streaming.cli.parser import Parser
    from airflow_streaming.home.home import StreamHome

Kinds: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_OF_A_STORE: Final = frozenset({"list", "verify", "restore", "retain", "delete"})
"""Verbs that read a backup store: the STORE that is given, or for a stream that of its home."""
_OF_A_HOME: Final = _OF_A_STORE | {"backup", "undo", "abandon", "repair"}
_CODES: Final = "Exit codes: 0 done, 1 a problem or a refusal, 2 wrong use."
_EPILOGS: Final = {
    "inspect": "Examples:\n  airflow-streaming checkpoint inspect s3a://lake/checkpoints/orders\n\n"
    "Exit codes: 0 sound, 1 a problem was found, 2 wrong use.",
    "backup": "Examples:\n  airflow-streaming checkpoint backup --stream orders --store s3://backups\n"
    f"  airflow-streaming checkpoint backup /data/cp/orders --store /backups\n\n{_CODES}",
    "list": "Exit codes: 0 all sound, 1 a backup is damaged or the store cannot be read, 2 wrong use.",
    "verify": "Examples:\n  airflow-streaming checkpoint verify s3://backups BACKUP_ID --level full\n\n"
    "Exit codes: 0 it holds, 1 it does not or cannot be read, 2 wrong use, such as a drill without a "
    "Spark that fits.",
    "restore": "Examples:\n  airflow-streaming checkpoint restore s3://b BACKUP_ID --stream a --dry-run\n"
    "  airflow-streaming checkpoint restore /backups BACKUP_ID --to /data/cp/new\n\n"
    "Exit codes: 0 restored, or with --dry-run could be; 1 refused, or it cannot be read; 2 wrong use, "
    "such as a place inside a checkpoint or a backup store.",
    "migrate": "Examples:\n  airflow-streaming checkpoint migrate /a /b --plan m.toml --runtime "
    "spark-4.3\n\n"
    "Exit codes: 0 migrated and proved, 1 a refusal or a problem, 2 wrong use, such as a changed plan.",
    "retain": "Examples:\n  airflow-streaming checkpoint retain /backups orders --daily 7 --dry-run\n\n"
    f"{_CODES}",
    "delete": "Examples:\n  airflow-streaming checkpoint delete /backups BACKUP_ID\n"
    "  airflow-streaming checkpoint delete /backups BACKUP_ID --yes --reason 'a test'\n\n"
    f"{_CODES}",
}
_ONE_OR_SEVERAL: Final = (
    "checkpoint of one query, or the folder above the checkpoints of one application"
)

_RULES: Final = (
    ("--keep-last", "keep the newest N"),
    ("--keep-for", "keep all of the last N days"),
    ("--daily", "keep the newest of each of N days"),
    ("--weekly", "keep the newest of each of N weeks"),
    ("--monthly", "keep the newest of each of N months"),
)

_VERBS: Final = {
    "inspect": ("inspecting", "inspect"),
    "backup": ("backups", "backup"),
    "list": ("backups", "list_backups"),
    "delete": ("backups", "delete"),
    "verify": ("backups", "verify_backup"),
    "retain": ("backups", "retain"),
    "restore": ("restoring", "restore_backup"),
    "clone": ("restoring", "copy_whole"),
    "carry-over": ("restoring", "copy_position"),
    "migrate": ("migrating", "migrate"),
}
_ON_A_STREAM: Final = {
    "backup": ("backups", "back_up_of_home"),
    "restore": ("restoring", "restore_of_home"),
    "undo": ("restoring", "undo_restore"),
    "abandon": ("restoring", "abandon_restore"),
    "repair": ("restoring", "repair_sinks"),
}


def add_verbs(parser: argparse.ArgumentParser) -> None:
    """Add every verb and its arguments."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _inspect(kinds)
    _backup(kinds)
    _list(kinds)
    _verify(kinds)
    _restore(kinds)
    _undo(kinds)
    _abandon(kinds)
    _repair(kinds)
    _clone(kinds)
    _carry_over(kinds)
    _migrate(kinds)
    _retain(kinds)
    _delete(kinds)


def needs_home(arguments: argparse.Namespace) -> bool:
    """Tell whether a verb is about a stream of a home."""
    match arguments.verb:
        case "undo" | "abandon" | "repair":
            return True
        case "restore":
            return arguments.stream is not None
        case "backup":
            return arguments.uri is None
        case _:
            return False


def _inspect(kinds: Kinds) -> None:
    verb = _verb(kinds, "inspect", "Show the content of a checkpoint, and all its problems")
    verb.add_argument("uri", type=place, metavar="URI", help=_ONE_OR_SEVERAL)
    verb.add_argument(
        "--thorough",
        action="store_true",
        help="read all state files and every checksum; slow for large state",
    )


def _backup(kinds: Kinds) -> None:
    verb = _verb(kinds, "backup", "Back up a checkpoint; its query may be running")
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument("uri", type=place, nargs="?", metavar="URI", help=_ONE_OR_SEVERAL)
    what.add_argument("--stream", metavar="NAME", help="stream of the home")
    verb.add_argument(
        "--store",
        type=place,
        metavar="STORE",
        help="backup store (default: HOME/_backups for --stream; required with a URI)",
    )
    verb.add_argument(
        "--name",
        help="name to file the backup of a URI under (default: one made of the URI)",
    )
    _add_sinks(
        verb,
        "whose log is backed up too (default: the outputs that the stream's drivers have recorded)",
    )
    add_person(verb)


def _list(kinds: Kinds) -> None:
    verb = _verb(kinds, "list", "List the backups of a store, oldest first")
    _add_store(verb)
    verb.add_argument("--stream", metavar="NAME", help="only the backups of this stream")


def _verify(kinds: Kinds) -> None:
    verb = _verb(kinds, "verify", "Verify a backup")
    _add_backup(verb)
    _add_stream(verb)
    verb.add_argument(
        "--level",
        choices=[str(level) for level in Level],
        default=str(Level.FULL),
        help="quick: manifest and sizes; full: every byte; drill: a real Spark opens the state and runs a "
        "batch in a copy (default: %(default)s)",
    )
    verb.add_argument(
        "--runtime",
        metavar="NAME_OR_PATH",
        help="Spark of a drill (default: the one in AIRFLOW__STREAMING__RUNTIMES whose version fits)",
    )
    verb.add_argument(
        "--script", metavar="FILE", help="script of the stream, of which a drill runs one batch"
    )
    add_repeated(verb, "--argument", "TEXT", "argument of the script; repeatable")
    add_conf(verb, "a drill")
    add_person(verb)


def _restore(kinds: Kinds) -> None:
    verb = cast(
        "Parser",
        _verb(
            kinds, "restore", "Restore a stream from a backup, or write a copy of its checkpoints"
        ),
    )
    verb.fill = _fill_restore


def _fill_restore(verb: argparse.ArgumentParser) -> None:
    from airflow_streaming.checkpoints.restore.replay import ACCEPTABLE  # not for the other verbs

    _add_backup(verb)
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--to",
        type=place,
        metavar="NEW_URI",
        help="write a copy of the checkpoints to this folder, which must be empty; no stream is changed",
    )
    what.add_argument(
        "--stream",
        metavar="NAME",
        help="stream of the home whose next start continues from the backup",
    )
    verb.add_argument(
        "--checkpoint",
        type=place,
        metavar="NEW_URI",
        help="with --stream: empty folder of its new checkpoints (default: beside the present ones)",
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="show the effects of the restore, and write nothing"
    )
    _add_accept(verb, ACCEPTABLE, "restore in spite of this refusal")
    verb.add_argument(
        "--rewind",
        action="store_true",
        help="rewind the stream's file sinks to the batches of the backup; later output "
        "moves to _rolled_back in their folders",
    )
    _add_sinks(
        verb,
        "whose log is compared (default: the outputs that the stream's drivers have "
        "recorded, and the backup names)",
    )
    add_person(verb)


def _undo(kinds: Kinds) -> None:
    text = "Continue a stream from the checkpoint it had before a restore"
    verb = cast("Parser", _verb(kinds, "undo", text))
    verb.fill = _fill_undo


def _fill_undo(verb: argparse.ArgumentParser) -> None:
    from airflow_streaming.checkpoints.restore.replay import OF_SINKS  # not for the other verbs

    verb.add_argument("stream", metavar="STREAM", help="name of the stream")
    verb.add_argument(
        "--repair",
        action="store_true",
        help="instead move the batch that the newest repair took out of a file sink back into it",
    )
    _add_accept(verb, OF_SINKS, "go back in spite of this refusal")
    add_person(verb)


def _abandon(kinds: Kinds) -> None:
    verb = _verb(kinds, "abandon", "Abandon an unfinished restore of a stream")
    verb.add_argument("stream", metavar="STREAM", help="name of the stream")
    verb.add_argument(
        "--sinks-in-step",
        action="store_true",
        help="file sinks that the restore could not put back were put back by hand",
    )
    add_person(verb)


def _repair(kinds: Kinds) -> None:
    text = "Move the batch that was not committed out of the file sinks of a stopped stream"
    verb = _verb(kinds, "repair", text)
    verb.add_argument("stream", metavar="STREAM", help="name of the stream")
    add_person(verb)


def _clone(kinds: Kinds) -> None:
    verb = _verb(kinds, "clone", "Copy a live checkpoint to a new place, as a query of its own")
    _from_and_to(verb)
    verb.add_argument(
        "--keep-query-id", action="store_true", help="keep the query id, to move a query"
    )


def _carry_over(kinds: Kinds) -> None:
    verb = _verb(
        kinds, "carry-over", "Create a checkpoint that holds only the positions of the sources"
    )
    _from_and_to(verb)
    verb.add_argument(
        "--stateless",
        action="store_true",
        help="confirm that the query has no state, where the checkpoint does not tell",
    )
    verb.add_argument(
        "--source",
        action="append",
        metavar="NAME",
        help="for each source of the new query in turn, the old source it continues from, or 'new'; "
        "repeatable (default: the same sources)",
    )


def _migrate(kinds: Kinds) -> None:
    verb = _verb(kinds, "migrate", "Write a copy of a checkpoint whose state fits new code")
    verb.add_argument(
        "uri", type=place, metavar="SOURCE", help="checkpoint of one query; read only"
    )
    verb.add_argument(
        "to", type=place, metavar="TARGET", help="new folder; empty, or of an unfinished migration"
    )
    verb.add_argument(
        "--plan",
        required=True,
        metavar="FILE",
        help="migration, as `gate change --write-migration` writes it (required)",
    )
    verb.add_argument(
        "--keep-query-id", action="store_true", help="keep the query id, to move a query"
    )
    add_runtime(verb, "reads and writes the state; 4.2 or newer (required)")
    add_conf(verb, "the Spark that migrates, e.g. for an object store")


def _retain(kinds: Kinds) -> None:
    verb = _verb(kinds, "retain", "Remove the backups of a stream that no rule keeps")
    _add_store(verb)
    verb.add_argument("stream", metavar="STREAM", help="name of the stream in the store")
    for option, text in _RULES:
        verb.add_argument(option, type=count, metavar="N", help=text)
    verb.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, and remove nothing"
    )
    add_person(verb)


def _delete(kinds: Kinds) -> None:
    verb = _verb(kinds, "delete", "Delete one backup that nothing needs")
    _add_backup(verb)
    _add_stream(verb)
    verb.add_argument(
        "--yes", action="store_true", help="delete it; without this, only tell whether it could be"
    )
    add_person(verb)


def _add_store(verb: argparse.ArgumentParser) -> None:
    text = "backup store (default: HOME/_backups, where a stream is named)"
    verb.add_argument("store", type=place, nargs="?", metavar="STORE", help=text)


def _add_backup(verb: argparse.ArgumentParser) -> None:
    _add_store(verb)
    verb.add_argument("backup_id", metavar="BACKUP_ID", help="id as `checkpoint list` shows it")


def _add_stream(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--stream", metavar="NAME", help="stream of the backup")


def _add_accept(verb: argparse.ArgumentParser, reasons: Collection[RefusalCode], what: str) -> None:
    text = f"{what}; repeatable: {', '.join(sorted(reasons))}"
    add_repeated(verb, "--accept", "REASON", text, _reason_in(reasons))


def _add_sinks(verb: argparse.ArgumentParser, what: str) -> None:
    text = f"output folder of a file sink, {what}; repeatable"
    add_repeated(verb, "--sink", "[QUERY=]URI", text, _sink)


def _from_and_to(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("uri", type=place, metavar="URI", help="checkpoint of one query")
    verb.add_argument(
        "--to",
        type=place,
        required=True,
        metavar="NEW_URI",
        help="new folder; must be empty (required)",
    )


def _verb(kinds: Kinds, name: str, text: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = kinds.add_parser(
        name, help=text, description=f"{text}.", epilog=_EPILOGS.get(name)
    )
    if name in _OF_A_HOME:
        add_home(verb)
    add_json(verb)
    return verb


def _sink(text: str) -> tuple[str, str]:
    query, found, uri = text.partition("=")
    return (query, place(uri)) if found and "/" not in query else ("", place(text))


def _reason_in(reasons: Collection[RefusalCode]) -> Callable[[str], RefusalCode]:
    # The choices of argparse would be printed as Python prints an enum.
    known = {str(one): one for one in reasons}

    def parse(text: str) -> RefusalCode:
        if text not in known:
            names = ", ".join(sorted(known))
            raise argparse.ArgumentTypeError(f"{text!r} is none of {names}")
        return known[text]

    return parse


def run(arguments: Namespace, person: Person | None) -> int:
    """
    Run one verb that needs no home.

    :param person: Who acts; ``None`` for a verb that only looks.
    """
    if arguments.verb in _OF_A_STORE:
        arguments.store = arguments.store or _store_of_home(arguments)
    # A verb loads its own part: a small backup takes little longer than loading all of them would.
    module, act = _VERBS[arguments.verb]
    found = import_module(f"airflow_streaming.cli.checkpoint.{module}")
    return int(getattr(found, act)(arguments, person))


def _store_of_home(arguments: Namespace) -> str:
    if arguments.stream is None:
        raise SpecError("Which backup store? Give STORE, or --stream NAME for that of the home.")
    from airflow_streaming.checkpoints.backup.stream_backup import default_store
    from airflow_streaming.cli.known_home import open_known

    return default_store(open_known(arguments.home).store.uri)


def run_on_stream(stream: StreamHome, arguments: Namespace, person: Person) -> int:
    if arguments.verb in _OF_A_STORE and arguments.store is None:
        from airflow_streaming.checkpoints.backup.stream_backup import default_store

        arguments.store = default_store(stream.store.uri)
    module, act = _ON_A_STREAM[arguments.verb]
    found = import_module(f"airflow_streaming.cli.checkpoint.{module}")
    return int(getattr(found, act)(stream, arguments, person))
