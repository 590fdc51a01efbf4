"""
The change gate: whether new code may continue from a checkpoint.

Plan mode marks secrets itself, and a file may have been written by anything. Texts of expressions
stay as they are, so that a literal that changes is seen; a report shows them masked.

A plan says by which Spark it was made. So a user who compares the plans of two Sparks need not think
of asking the version gate as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from airflow_streaming.checkpoints.copies import checkpoints_of
from airflow_streaming.checkpoints.read.report import Checkpoint, FindingCode, Operator
from airflow_streaming.checkpoints.read.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.checkpoints.reader import Reader
from airflow_streaming.exceptions import CheckpointError, RecordError, StreamingError
from airflow_streaming.gates.change.judge import (
    SPARK,
    Matched,
    checkpoint_name,
    has_batch,
    judge_script,
    match,
)
from airflow_streaming.gates.change.pair import SameFiles
from airflow_streaming.gates.change.sources import reads
from airflow_streaming.gates.findings import GateFinding, GateReport, report_of
from airflow_streaming.gates.migration.migrations import with_migrations
from airflow_streaming.gates.stored import DEFAULT_STORE, StoreSchema, store_schemas
from airflow_streaming.gates.version_gate import gate_version
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan, SourcePlan
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import mask_password
from airflow_streaming.storage.folders import Folders, open_folders, reporting
from airflow_streaming.storage.fsspec_store import open_filesystem

_NAMED: Final = re.compile(r"(0|[1-9][0-9]{0,17})_[A-Za-z0-9-]{1,100}")
_OWN_FILES: Final = 3
"""From this version on a schema file is named by its operator, and is in a folder of its own."""

MOST_LISTED: Final = 100_000
"""Files of a folder; a larger one is not compared."""
_PATTERN: Final = re.compile(r"[*?]")
_NOT_UNDERSTOOD: Final = re.compile(r"[\[\]{}\\^]|\*\*")
"""Hadoop's patterns know more than Python's; these are left alone."""
_HIDDEN: Final = ("_", ".")


def without_secrets(plan: QueryPlan) -> QueryPlan:
    """Return a plan whose options, configuration and places hold no secret."""
    return replace(
        plan,
        checkpoint=mask_password(plan.checkpoint),
        sources=tuple(map(_source, plan.sources)),
        sink=_sink(plan.sink),
        conf=redact(plan.conf),
    )


def read_state_columns(folders: Folders, checkpoint: Checkpoint) -> list[StoreSchema]:
    """
    Return the columns of every readable store.

    A missing or broken file is left out; the rules treat its columns as unknown.
    """
    found: list[StoreSchema] = []
    for operator in checkpoint.operators:
        for store, path in _files(folders, operator):
            try:
                data = folders.read(path, MAX_SCHEMA_BYTES)
                schema = parse_state_schema(data) if data is not None else None
            except RecordError:
                continue
            if schema is not None:
                found += store_schemas(schema, operator=operator.id, path=path, store=store)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """
    The Spark versions of a change.

    :param start: The Spark that wrote the checkpoints; default: the old plans' Spark.
    :param target: The Spark that will run the new code; default: its plan's Spark. If given, the
        version gate runs even without a change.
    :param conf: Configuration of the new deployment, as far as it is given.
    """

    start: str = ""
    target: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)


AS_PLANNED: Final = Versions()
"""The Sparks by which the plans were made."""


def judge_versions(
    checkpoints: Mapping[str, str],
    old: Sequence[QueryPlan],
    target: str,
    versions: Versions,
    storage_options: Mapping[str, Any] | None,
) -> Iterator[GateFinding]:
    """
    Run the version gate on every checkpoint that another Spark will read.

    :param checkpoints: URI of the existing ones, by query.
    :param target: The Spark of the new plan.
    :raises SpecError: Not a Spark version.
    """
    by_query = {plan.query: plan.spark for plan in old}
    # A deployment has one Spark, so another query's plan shows it too.
    sparks = {plan.spark for plan in old}
    common = next(iter(sparks)) if len(sparks) == 1 else ""
    for query, uri in checkpoints.items():
        start = versions.start or by_query.get(query) or common
        to = versions.target or target
        if not start:
            yield SPARK.found(query=query, new=to, evidence="no old plan and no version")
        elif versions.target or parse_spark_version(start) != parse_spark_version(to):
            plans = [plan for plan in old if plan.query == query]
            yield from gate_version(
                {query: uri},
                start,
                to,
                conf=versions.conf,
                plans=plans,
                storage_options=storage_options,
            ).findings


class Looked(NamedTuple):
    """
    A checkpoint as the gate reads it.

    :param checkpoint: ``None`` if it does not exist.
    :param schemas: The readable columns of its state.
    """

    checkpoint: Checkpoint | None
    schemas: list[StoreSchema]


def look_at(uri: str, storage_options: Mapping[str, Any] | None = None) -> Looked:
    """Read one query's checkpoint as far as the rules need it: logs, names and schema files."""
    folders = open_folders(uri, storage_options)
    checkpoint = _read(folders)
    return Looked(checkpoint, read_state_columns(folders, checkpoint) if checkpoint else [])


def gate_change(
    checkpoints: Mapping[str, str],
    old: Sequence[QueryPlan],
    new: ScriptPlan,
    *,
    storage_options: Mapping[str, Any] | None = None,
    same_code: bool = False,
    old_problem: str = "",
    versions: Versions | None = AS_PLANNED,
) -> GateReport:
    """
    Judge a new version of a script by its plan, the old plans and the checkpoints.

    If the new plan has another Spark than the old ones, the version gate runs as well. Reads only
    logs, the state's schema files and, for a file source with another path, the names of its files;
    writes nothing and starts no Spark.

    :param checkpoints: URI of each query's checkpoint, by query name.
    :param old: Plans that the running queries were started with; if empty, only the checkpoints are
        compared.
    :param storage_options: Passed to fsspec for a remote URI.
    :param old_problem: Why the old script did not finish in plan mode, if so.
    :param versions: The Spark versions, if they differ from the plans; ``None`` if the caller runs
        the version gate itself.
    :raises SpecError: Not a full URI, or not a Spark version.
    """
    found: dict[str, Checkpoint | None] = {}
    columns: dict[str, list[StoreSchema]] = {}
    for query, uri in checkpoints.items():
        looked = look_at(uri, storage_options)
        found[query], columns[query] = looked.checkpoint, looked.schemas
    matched = match(old, new.queries)
    report = judge_script(
        old,
        new.queries,
        found,
        schemas=columns,
        same_code=same_code,
        same_files=same_files(matched, storage_options),
        problem=new.problem,
        old_problem=old_problem,
        refused=new.refused,
        spark=new.spark,
    )
    if versions is None:
        return with_migrations(report, matched, found, columns)
    read = {checkpoint_name(each, checkpoints) for each in matched}
    there = {
        query: uri
        for query, uri in checkpoints.items()
        if query in read and has_batch(found[query])
    }
    other = judge_versions(there, old, new.spark, versions, storage_options)
    whole = report_of([*report.findings, *other], report.pattern)
    return with_migrations(whole, matched, found, columns)


def gate_stream_change(
    home: StreamHome,
    new: ScriptPlan,
    *,
    storage_options: Mapping[str, Any] | None = None,
    same_code: bool = False,
    versions: Versions | None = AS_PLANNED,
) -> GateReport:
    """
    Judge a new version of a stream's script by its home's records.

    The old plans are the current deployment's recorded plans; the checkpoints are those queries'
    checkpoints under it.

    :param versions: As in ``gate_change``; by default the checkpoints have the newest deployment's
        Spark.
    :raises CheckpointError: The stream was never deployed.
    """
    checkpoints = checkpoints_of(home, storage_options).checkpoints
    old = home.newest_plans()
    deployment = home.newest_deployment()
    if versions is not None and deployment is not None:
        versions = replace(versions, start=versions.start or deployment.spark_version)
    return gate_change(
        checkpoints,
        old,
        new,
        storage_options=storage_options,
        same_code=same_code,
        versions=versions,
    )


def same_files(matched: Iterable[Matched], storage_options: Mapping[str, Any] | None) -> SameFiles:
    """
    Return the old and new paths of file sources that list the same files now.

    Equal are a folder of plain files and a pattern of its names, or two patterns. Subfolders, and
    files that Spark hides in a folder and not behind a pattern, make the paths different: they
    decide partition columns and the input. So does a store that cannot be listed from here.

    :param storage_options: Passed to fsspec for a remote path.
    """
    return frozenset(
        paths for paths in _changed_paths(matched) if _list_the_same(*paths, storage_options)
    )


def _source(source: SourcePlan) -> SourcePlan:
    return replace(
        source, paths=tuple(map(mask_password, source.paths)), options=redact(source.options)
    )


def _sink(sink: SinkPlan) -> SinkPlan:
    return replace(sink, target=mask_password(sink.target), options=redact(sink.options))


def _files(folders: Folders, operator: Operator) -> Iterator[tuple[str, str]]:
    names = [store.name for store in operator.stores] or [DEFAULT_STORE]
    if operator.schema_version is not None and operator.schema_version >= _OWN_FILES:
        for name in dict.fromkeys([*names, DEFAULT_STORE]):
            newest = _newest(folders, f"state/{operator.id}/_stateSchema/{name}")
            if newest:
                yield name, newest
        return
    for name in names:
        inner = "" if name == DEFAULT_STORE else f"/{name}"
        yield name, f"state/{operator.id}/0{inner}/_metadata/schema"


def _newest(folders: Folders, folder: str) -> str:
    entries = folders.entries(folder, list) or []
    batches = {match[0]: int(match[1]) for e in entries if (match := _NAMED.fullmatch(e.name))}
    return f"{folder}/{max(batches, key=batches.__getitem__)}" if batches else ""


def _read(folders: Folders) -> Checkpoint | None:
    try:
        found = Reader(folders).inspect()
    except CheckpointError:
        return None
    if any(problem.code is FindingCode.NOT_A_CHECKPOINT for problem in found.problems):
        return None
    return found


def _changed_paths(matched: Iterable[Matched]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    for each in matched:
        for old, new in zip(each.old.sources if each.old else (), each.new.sources, strict=False):
            if old.source == new.source == "file" and reads(old) != reads(new):
                yield reads(old), reads(new)


def _list_the_same(
    old: tuple[str, ...], new: tuple[str, ...], storage_options: Mapping[str, Any] | None
) -> bool:
    if len(old) != 1 or len(new) != 1:
        return False
    (before, was), (after, now) = _apart(old[0]), _apart(new[0])
    if not before or before != after:
        return False
    try:
        names = _files_in(before, storage_options)
    except StreamingError:
        return False
    chosen = [_chosen(names, pattern) for pattern in (was, now)]
    return bool(chosen[0]) and chosen[0] == chosen[1]


def _apart(path: str) -> tuple[str, str]:
    """Return a folder and the pattern of names in it; an empty folder where it is not understood."""
    if _NOT_UNDERSTOOD.search(path):
        return "", ""
    folder, _, last = path.rpartition("/")
    if not _PATTERN.search(path):
        return path, ""
    return ("", "") if _PATTERN.search(folder) else (folder, last)


def _files_in(folder: str, storage_options: Mapping[str, Any] | None) -> frozenset[str]:
    """
    Return the names of the files in a folder; nothing where there is something else in it.

    :raises StreamingError: it cannot be listed.
    """
    with reporting(folder):
        fs, root = open_filesystem(folder, "source", storage_options)
        entries = fs.ls(root, detail=True)
    if len(entries) > MOST_LISTED or any(entry["type"] != "file" for entry in entries):
        return frozenset()
    names = [str(entry["name"]).rstrip("/").rpartition("/") for entry in entries]
    if any(above.rstrip("/") != root.rstrip("/") for above, _, _ in names):
        return frozenset()
    return frozenset(name for _, _, name in names)


def _chosen(names: Iterable[str], pattern: str) -> frozenset[str]:
    if pattern:
        return frozenset(name for name in names if fnmatchcase(name, pattern))
    return frozenset(name for name in names if not name.startswith(_HIDDEN))
