"""
The files of a checkpoint, and its operator metadata.

Older releases write fewer files, so a file is missing only if the Spark of the newest committed
plan would have written it: schemas since 3.1, metadata since 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from airflow_streaming.checkpoints.integrity.logs import RESTORE
from airflow_streaming.checkpoints.read.formats import spark_at_least
from airflow_streaming.checkpoints.read.journal import Journal
from airflow_streaming.checkpoints.read.report import Finding, FindingCode
from airflow_streaming.checkpoints.read.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.checkpoints.read.stateful import STATE, SchemaFile, State, metadata_paths
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import RESTORE_MARKER, Listing, Read, is_hidden

_MOST_NAMED: Final = 10
"""Unknown files that are named one by one; a wrong folder may have a million."""
_STATE_NAMES: Final = re.compile(
    r"[0-9]{1,18}(_[0-9A-Za-z-]{1,64})?\.(delta|snapshot|changelog|zip)(\.crc)?", re.ASCII
)
_BATCH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_ANY: Final = re.compile(r".*", re.DOTALL)
_STORE: Final = r"state/[0-9]{1,9}/[0-9]{1,9}(/(?!SSTs\b|logs\b)[^_/][^/]*)?"
_PLACES: Final = (
    (re.compile(r""), re.compile(rf"metadata|{re.escape(RESTORE_MARKER)}")),
    (re.compile(r"offsets|commits"), _BATCH),
    # The content is up to the source.
    (re.compile(r"sources/.+"), _ANY),
    (re.compile(r"state/[0-9]{1,9}/(_metadata|_stateSchema)(/.+)?"), _ANY),
    (re.compile(_STORE), _STATE_NAMES),
    (re.compile(rf"{_STORE}/_metadata"), re.compile(r"schema(\.crc)?")),
    (re.compile(rf"{_STORE}/SSTs"), re.compile(r".+\.(sst|log)(\.crc)?")),
    (re.compile(rf"{_STORE}/logs"), re.compile(r".+\.log(\.crc)?")),
)
"""Folders of a checkpoint, each with the names that files in it have."""

_REWRITES: Final = (
    "Spark starts and writes it again from the present query, so the check that the query still "
    "fits its state is lost: a changed query silently gives wrong results. Copy the file from a "
    "backup, or make sure that the query was not changed."
)


def is_checkpoint(listing: Listing) -> bool:
    return listing.stat("metadata") is not None or not listing.folders.keys().isdisjoint(
        {"offsets", "commits"}
    )


def place_problems(listing: Listing) -> Iterator[Finding]:
    if listing.stat(RESTORE_MARKER) is not None:
        yield Finding(
            code=FindingCode.UNFINISHED_RESTORE,
            path=RESTORE_MARKER,
            message="A restore into this checkpoint has not finished, so files may be missing. "
            "Spark does not know that and might start on a part of them. Run the restore again, or "
            "give up the folder; do not start the query on it.",
        )
    for path, what in sorted(listing.strange.items()):
        yield Finding(
            code=FindingCode.STRANGE_FILE,
            path=path,
            message=(
                f"{path} is neither a file nor a folder: {what}. Not opened. Spark never creates "
                "such entries and backups skip them. Find out who created it; replace it by real "
                "files if Spark needs them."
            ),
        )


def place_remarks(listing: Listing) -> Iterator[Finding]:
    """Return files that no Spark from 2.1 to 4.3 writes there."""
    unknown = _unknown(listing)
    for path in islice(unknown, _MOST_NAMED):
        yield Finding(
            code=FindingCode.UNKNOWN_FILE,
            path=path,
            message=f"{path} is not a file that Spark 2.1 to 4.3 writes there. Spark passes over it. "
            "Find out whose it is; other programs should not write into a checkpoint.",
        )
    more = sum(1 for _ in unknown)
    if more:
        yield Finding(
            code=FindingCode.UNKNOWN_FILE,
            path="",
            message=(
                f"{more} more files were not written by Spark. Check that this folder holds a "
                "checkpoint only."
            ),
        )


def _unknown(listing: Listing) -> Iterator[str]:
    for folder in sorted(listing.folders):
        known = next((names for place, names in _PLACES if place.fullmatch(folder)), None)
        prefix = f"{folder}/" if folder else ""
        for name in listing.files(folder):
            if not is_hidden(name) and (known is None or not known.fullmatch(name)):
                yield prefix + name


def operator_problems(listing: Listing, journal: Journal, state: State) -> Iterator[Finding]:
    """Check the metadata of the operators."""
    for path, why in state.unreadable.items():
        yield Finding(
            code=FindingCode.OPERATOR_METADATA_UNREADABLE,
            path=path,
            message=f"{path}: {why} Spark reads it on a restart and fails. {RESTORE}",
        )
    if journal.next_batch == 0 or not _wrote(journal, (4, 0)):
        return
    for operator in state.operators:
        if not metadata_paths(listing, operator):
            path = f"{STATE}/{operator}/_metadata/metadata"
            yield Finding(
                code=FindingCode.OPERATOR_METADATA_MISSING,
                path=path,
                message=f"The metadata of operator {operator} is missing ({path}), which Spark 4.0 "
                f"and newer write. {_REWRITES}",
            )


def read_schemas(
    listing: Listing, read: Read, files: list[SchemaFile], journal: Journal
) -> tuple[dict[int, int], list[Finding]]:
    """Return the version of each operator's schema, and the findings."""
    versions: dict[int, int] = {}
    findings: list[Finding] = []
    for file in files:
        if file.is_foreign and file.is_comparable:
            findings.append(_foreign(listing, file))
        try:
            data = _content(listing, read, file)
            if data is not None:
                version = parse_state_schema(data).version
                versions[file.operator] = max(version, versions.get(file.operator, 0))
            elif not file.is_foreign:
                findings.extend(_missing(file, journal))
        except RecordError as err:
            findings.append(_unreadable(file, str(err)))
    return versions, findings


def foreign_remarks(files: list[SchemaFile]) -> Iterator[Finding]:
    """Return schema files that may lie outside this checkpoint."""
    for file in files:
        if file.is_foreign and not file.is_comparable:
            yield Finding(
                code=FindingCode.FOREIGN_PATH,
                path=file.path or STATE,
                message=(
                    f"The metadata of operator {file.operator} names its schema file "
                    f"{file.named}, on another file system than this checkpoint. It may be "
                    "another file; Spark reads the named one."
                ),
            )


def _content(listing: Listing, read: Read, file: SchemaFile) -> bytes | None:
    if file.path is None or listing.stat(file.path) is None:
        return None
    return read(file.path, MAX_SCHEMA_BYTES)


def _is_there(listing: Listing, file: SchemaFile) -> bool:
    return file.path is not None and listing.stat(file.path) is not None


def _missing(file: SchemaFile, journal: Journal) -> Iterator[Finding]:
    if file.named:
        yield Finding(
            code=FindingCode.STATE_SCHEMA_MISSING,
            path=file.path or STATE,
            message=f"The schema file {file.named} of operator {file.operator} is missing. Spark "
            f"fails on a restart ('File ... does not exist'). {RESTORE}",
        )
    elif journal.next_batch > 0 and _wrote(journal, (3, 1)):
        yield Finding(
            code=FindingCode.STATE_SCHEMA_MISSING,
            path=file.path or STATE,
            message=f"The state schema {file.path} is missing, which Spark 3.1 and newer write. "
            f"{_REWRITES}",
        )


def _unreadable(file: SchemaFile, why: str) -> Finding:
    return Finding(
        code=FindingCode.STATE_SCHEMA_UNREADABLE,
        path=file.path or STATE,
        message=f"{file.path}: {why} Spark reads it on a restart to check the query against its "
        f"state, and fails. {RESTORE}",
    )


def _foreign(listing: Listing, file: SchemaFile) -> Finding:
    here = f" The copy in here, {file.path}, is not used." if _is_there(listing, file) else ""
    return Finding(
        code=FindingCode.FOREIGN_PATH,
        path=file.path or STATE,
        message=f"The metadata of operator {file.operator} names the schema file {file.named}, "
        f"which lies outside this checkpoint.{here} Spark reads that one and fails when it is gone "
        "('File ... does not exist'); when it is there, two checkpoints share it. The folder was "
        "copied or moved by hand. Copy it with a restore or a clone, which rewrite the paths.",
    )


def _wrote(journal: Journal, since: tuple[int, int]) -> bool:
    plan, commit = journal.committed_plan, journal.newest_commit
    if plan is None:
        return False
    release = spark_at_least(
        plan.conf, offset_log=plan.log_version, commit_log=commit.log_version if commit else None
    )
    return release is not None and tuple(map(int, release.split("."))) >= since
