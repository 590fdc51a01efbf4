"""
State stores: where they lie, and which file stands for which version.

Such a changelog begins with its own version, ``v3`` or ``v4``, and a JSON list of the versions
before it with their ids, back to the snapshot from which the task had started. Both are texts with
a length of 16 bits, inside the compression.

A store's folder holds one file a version or several: the changes since the version before, the
whole state of that version, or both. State checkpoint format 2 adds a unique id to the name, so
that two attempts at one version never share a file.

``state/<operator>/<partition>/`` is a store of its own unless the operator has several stores,
as a join of two streams has; each of those has a folder of its name in there.

In format 1 the name tells. In format 2 there may be several files of one version, and only the
ancestors of the wanted one count: its changelog names them, and so do earlier commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from airflow_streaming.checkpoints.read.report import StoreType
from airflow_streaming.checkpoints.state.lz4 import MAGIC, decompress
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read, is_hidden
from airflow_streaming.model.spark.logs import count, items, json_value, mapping, string

_WITH_LINEAGE: Final = (b"v3", b"v4")
_LONGEST: Final = 2 * (2 + 0xFFFF)
"""Bytes that two such texts can have."""
_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)

SIDECAR: Final = ".crc"
"""Suffix of a visible checksum file."""
_NAME: Final = re.compile(
    r"([0-9]{1,18})(?:_([0-9A-Za-z-]{1,64}))?\.(delta|snapshot|changelog|zip)", re.ASCII
)

StateIds = Mapping[int, Sequence[Sequence[str]]]
"""The unique ids of one commit: operator -> partition -> store (``CommitLog.state_ids``)."""
DEFAULT_STORE: Final = "default"
SST_FOLDER: Final = "SSTs"
LOG_FOLDER: Final = "logs"
_NOT_STORES: Final = frozenset({SST_FOLDER, LOG_FOLDER, "_metadata"})
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

# A commit lists the ids of a join's stores without their names, in this order.
_JOIN_ORDER: Final = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)

MAX_CHANGELOG_BYTES: Final = 64 * 1024 * 1024
"""Larger changelogs are not asked for their ancestors; the commit log then tells them."""


def lineage(data: bytes) -> tuple[tuple[int, str], ...]:
    """
    Return version and unique id of each ancestor that a changelog names, oldest first.

    :raises RecordError: it is compressed by another codec than LZ4, damaged, or has no lineage.
    """
    if not data.startswith(MAGIC):
        raise RecordError("The changelog is not compressed with LZ4.")
    content = decompress(data, _LONGEST)
    form, rest = _text(content)
    if form not in _WITH_LINEAGE:
        raise RecordError("The changelog does not tell its ancestors.")
    listed, _ = _text(rest)
    ancestors = items(_parsed(listed), "lineage")
    return tuple(sorted(_ancestor(mapping(ancestor, "lineage")) for ancestor in ancestors))


def _text(content: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(content[:2], "big")
    if len(content) < 2 + size:
        raise RecordError("The changelog ends within its head.")
    return content[2 : 2 + size], content[2 + size :]


def _parsed(listed: bytes) -> Any:
    try:
        return json_value(listed.decode("utf-8"), "lineage of the changelog")
    except UnicodeDecodeError as err:
        raise RecordError("The lineage of the changelog is not text.") from err


def _ancestor(ancestor: dict[str, Any]) -> tuple[int, str]:
    unique_id = string(ancestor.get("checkpointUniqueId"), "checkpointUniqueId")
    if not _ID.fullmatch(unique_id):
        raise RecordError("The lineage of the changelog has an invalid id.")
    return count(ancestor.get("version"), "version"), unique_id


class StateForm(StrEnum):
    """Kinds of state files."""

    DELTA = "delta"
    """Changes since the version before, of the HDFS-backed store."""
    SNAPSHOT = "snapshot"
    """The whole state, of the HDFS-backed store."""
    CHANGELOG = "changelog"
    """Changes since the version before, of RocksDB."""
    ZIP = "zip"
    """The whole state of RocksDB: its small files and the names of its SST files."""


class StateFile(NamedTuple):
    """
    A state file by its name.

    :param version: The version it leads to; batch N writes version N + 1.
    :param unique_id: The attempt that wrote it, in state checkpoint format 2; else ``None``.
    :param name: Its name in the store's folder.
    """

    version: int
    unique_id: str | None
    form: StateForm
    name: str


_FORMS: Final = {form.value: form for form in StateForm}


@lru_cache(maxsize=1 << 14)  # the partitions of an operator have files of the same names
def parse_name(name: str) -> StateFile | None:
    """Parse the name of a state file; ``None`` for other names."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version, unique_id, form = match.groups()
    return StateFile(int(version), unique_id, _FORMS[form], name)


_HDFS_FORMS: Final = frozenset({StateForm.DELTA, StateForm.SNAPSHOT})


class StoreRef(NamedTuple):
    """
    A state store of one partition.

    :param name: ``default`` unless the operator has several stores.
    :param folder: Its folder in the checkpoint, e.g. ``state/0/3`` or
        ``state/0/3/left-keyToNumValues``.
    """

    operator: int
    partition: int
    name: str
    folder: str


def stores(listing: Listing) -> list[StoreRef]:
    """
    Return every store of every operator and partition, sorted.

    An operator's store that only some of its partitions have is returned for all partitions that
    have a folder, so that a lost one shows as a store without files.
    """
    found: list[StoreRef] = []
    for operator in _numbered(listing, "state"):
        found += _stores_of(listing, operator)
    return sorted(found)


def state_files(listing: Listing, ref: StoreRef) -> list[StateFile]:
    """Return a store's state files in no special order; hidden ones and checksums left out."""
    return list(_state_files(listing, ref.folder))


def store_type(files: Iterable[StateFile]) -> StoreType:
    """Tell how a store keeps its state, by its files."""
    forms = {file.form for file in files}
    if StateForm.CHANGELOG in forms:
        return StoreType.ROCKSDB_CHANGELOG
    if StateForm.ZIP in forms:
        return StoreType.ROCKSDB
    return StoreType.HDFS if forms & _HDFS_FORMS else StoreType.UNKNOWN


def ids_of(
    ref: StoreRef, commits: Mapping[int, StateIds], listing: Listing
) -> Mapping[int, str] | None:
    """
    Return a store's unique id of each version that the commit log tells.

    :param commits: From a batch to the ``state_ids`` of its commit, as many as were read; the
        commit of batch N names the ids of version N + 1.
    :return: From version to id; ``None`` when no commit names any: state checkpoint format 1.
    """
    ids: dict[int, str] = {}
    is_told = False
    for batch, operators in commits.items():
        partitions = operators.get(ref.operator, ())
        is_told = is_told or bool(partitions)
        if ref.partition < len(partitions):
            found = _id_among(listing, ref, batch + 1, partitions[ref.partition])
            if found is not None:
                ids[batch + 1] = found
    return ids if is_told else None


def versions_beyond(listing: Listing, version: int) -> list[str]:
    """
    Return state files of versions after ``version``, sorted: left over from an abandoned timeline.

    Only format 1 counts: Spark opens files of format 2 by id, so it never loads a leftover.

    :param version: The newest version that can have been written by then: the newest planned batch
        + 1.
    """
    return sorted(
        f"{ref.folder}/{file.name}"
        for ref in stores(listing)
        for file in _state_files(listing, ref.folder)
        if file.version > version and file.unique_id is None
    )


def _state_files(listing: Listing, folder: str) -> Iterator[StateFile]:
    for name in listing.files(folder):
        if (file := parse_name(name)) is not None:
            yield file


def _numbered(listing: Listing, folder: str) -> list[int]:
    return [int(name) for name in listing.subfolders(folder) if _NUMBER.fullmatch(name)]


def _stores_of(listing: Listing, operator: int) -> Iterator[StoreRef]:
    folders = {
        partition: f"state/{operator}/{partition}"
        for partition in _numbered(listing, f"state/{operator}")
    }
    names = {
        name
        for folder in folders.values()
        for name in listing.subfolders(folder)
        if name not in _NOT_STORES and not is_hidden(name)
    }
    if not names or any(_has_own_store(listing, folder) for folder in folders.values()):
        names.add(DEFAULT_STORE)
    for partition, folder in folders.items():
        for name in names:
            yield StoreRef(operator, partition, name, _folder(folder, name))


def _folder(partition_folder: str, name: str) -> str:
    return partition_folder if name == DEFAULT_STORE else f"{partition_folder}/{name}"


def _has_own_store(listing: Listing, folder: str) -> bool:
    return any(_state_files(listing, folder)) or f"{folder}/{SST_FOLDER}" in listing.folders


def _id_among(
    listing: Listing, ref: StoreRef, version: int, candidates: Sequence[str]
) -> str | None:
    if len(set(candidates)) == 1:
        return candidates[0]
    names = listing.files(ref.folder)
    for unique_id in candidates:
        if any(f"{version}_{unique_id}.{form}" in names for form in StateForm):
            return unique_id
    is_join = len(candidates) == len(_JOIN_ORDER) and ref.name in _JOIN_ORDER
    return candidates[_JOIN_ORDER.index(ref.name)] if is_join else None


_WHOLE: Final = frozenset({StateForm.SNAPSHOT, StateForm.ZIP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """
    Why no chain to a version was found.

    :param is_unknown: A chain may exist.
    """

    path: str
    why: str
    is_unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """
    The files on the way to one version.

    :param bases: Snapshots and zips, by version.
    :param changes: Deltas and changelogs, by version.
    :param logged: Versions that have a delta or changelog of any id.
    :param ids: Unique id of each version, as far as known; ``None`` in format 1.
    :param is_told_by_changelog: The ids are from the changelog, and Spark uses no others.
    :param conflict: How changelog and commit log differ about the ids.
    """

    store_type: StoreType
    version: int
    bases: Mapping[int, StateFile]
    changes: Mapping[int, StateFile]
    logged: frozenset[int] = frozenset()
    ids: Mapping[int, str] | None = None
    is_told_by_changelog: bool = False
    conflict: str = ""

    def bases_from_newest(self) -> list[int]:
        """Return the versions to start from, newest first, ending with the empty state."""
        return [*sorted(self.bases, reverse=True), 0]

    def expected_name(self, version: int) -> str | None:
        """Return the name of the file that should lead to a version; ``None`` when unknown."""
        if self.ids is None:
            return f"{version}.{self._expected_form(version)}"
        if version in self.ids:
            return f"{version}_{self.ids[version]}.{self._expected_form(version)}"
        if not self.is_told_by_changelog:
            return None
        # A changelog goes back to the snapshot from which its task had started.
        oldest = min(self.ids)
        return f"{oldest}_{self.ids[oldest]}.{StateForm.ZIP}"

    def _expected_form(self, version: int) -> StateForm:
        if self.store_type is StoreType.HDFS:
            return StateForm.DELTA
        # Without changelogs every version has a zip; changelogs can be switched on and off.
        is_logged = not self.logged.isdisjoint((version - 1, version, version + 1))
        return StateForm.CHANGELOG if is_logged else StateForm.ZIP


def steps_to(
    listing: Listing, read: Read, ref: StoreRef, version: int, ids: Mapping[int, str] | None
) -> Steps | Unknown:
    """Return the files on the way to a version; see ``files_for``."""
    files = state_files(listing, ref)
    if version == 0:
        return Steps(store_type=store_type(files), version=0, bases={}, changes={})
    if not files:
        why = f"{ref.folder} holds no state files; Spark needs version {version} of it."
        return Unknown(path=ref.folder, why=why, is_unknown=False)
    if ids is None:
        return _by_name(files, ref, version)
    if version not in ids:
        why = f"No commit tells the id of version {version} in {ref.folder}."
        return Unknown(path=ref.folder, why=why, is_unknown=True)
    return _by_id(files, read, ref, version, ids)


def _by_name(files: list[StateFile], ref: StoreRef, version: int) -> Steps | Unknown:
    if all(file.unique_id is not None for file in files):
        why = f"The files in {ref.folder} have ids, and no commit tells which of them count."
        return Unknown(path=ref.folder, why=why, is_unknown=True)
    return _steps(files, {}, version)


def _by_id(
    files: list[StateFile], read: Read, ref: StoreRef, version: int, ids: Mapping[int, str]
) -> Steps:
    own = {version: ids[version]}
    values = {step: unique_id for step, unique_id in ids.items() if step < version}
    forms = {file.form: file for file in files if file[:2] == (version, ids[version])}
    changelog = forms.get(StateForm.CHANGELOG)
    if forms.keys() & _WHOLE:
        # A zip of the version itself needs no ancestors, and Spark does not look for any.
        return replace(_steps(files, own, version), ids=own)
    ancestors = None if changelog is None else _ancestors(read, ref, changelog)
    if ancestors is None:
        known = {**values, **own}
        return replace(_steps(files, known, version), ids=known)
    known = {**ancestors, **own}
    return replace(
        _steps(files, known, version),
        ids=known,
        is_told_by_changelog=True,
        conflict=_conflict(values, ancestors),
    )


def _ancestors(read: Read, ref: StoreRef, changelog: StateFile) -> Mapping[int, str] | None:
    # Where it cannot be read the commit log is used: its own damage is found elsewhere.
    try:
        data = read(f"{ref.folder}/{changelog.name}", MAX_CHANGELOG_BYTES)
        listed = lineage(data or b"")
    except RecordError:
        return None
    return {step: unique_id for step, unique_id in listed if step < changelog.version}


def _conflict(told: Mapping[int, str], ancestors: Mapping[int, str]) -> str:
    for step in sorted(told.keys() & ancestors.keys()):
        if told[step] != ancestors[step]:
            return (
                f"The changelog goes back to {ancestors[step]} for version {step}, "
                f"the commit log to {told[step]}."
            )
    return ""


def _steps(files: list[StateFile], ids: Mapping[int, str], version: int) -> Steps:
    # Files of format 1 have no id, and no version of it has one.
    own = [
        file
        for file in files
        if file.version <= version and file.unique_id == ids.get(file.version)
    ]
    return Steps(
        store_type=store_type(files),
        version=version,
        bases={file.version: file for file in own if file.form in _WHOLE},
        changes={file.version: file for file in own if file.form not in _WHOLE},
        logged=frozenset(file.version for file in files if file.form not in _WHOLE),
    )
