"""
The exact files that load one version of one state store.

This chooses among many versions; ``files_for`` returns the files of one.

The HDFS-backed store loads the newest snapshot at or before the version and the deltas after it.
RocksDB loads the newest zip, the SST files that the zip names, and the changelogs after it. In
state checkpoint format 2 the commit log names the id of the version and the changelog itself names
its ancestors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_streaming.checkpoints.read.report import StoreType
from airflow_streaming.checkpoints.state.rocksdb import RocksFile, parse_zip
from airflow_streaming.checkpoints.state.stores import (
    SIDECAR,
    StateFile,
    StateForm,
    Steps,
    StoreRef,
    Unknown,
    state_files,
    steps_to,
)
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import FileStat, Listing, Read

MAX_ZIP_BYTES: Final = 64 * 1024 * 1024
MAX_REPAIRED_CHANGES: Final = 500
"""Changes that Spark replays at most where it passes over a damaged snapshot."""


def loadable_versions(
    listing: Listing, ref: StoreRef, ids: Mapping[int, str] | None = None
) -> set[int]:
    """
    Return every version whose files are all present by name, including 0, the empty state.

    SST files are not checked, so a version in the result may still fail to load. In format 2 only
    versions with a known id are returned; if the commit log has no id of an ancestor, any file of
    its version counts.

    :param ids: Unique ids by version from the commit log, see ``ids_of``; ``None`` in format 1.
    """
    files = [file for file in state_files(listing, ref) if _counts(file, ids)]
    whole = {f.version for f in files if f.form in (StateForm.ZIP, StateForm.SNAPSHOT)}
    changes = {f.version for f in files} - whole
    loadable = {0}
    for version in sorted(whole | changes):
        if version in whole or version - 1 in loadable:
            loadable.add(version)
    return loadable if ids is None else loadable & {0, *ids}


def _counts(file: StateFile, ids: Mapping[int, str] | None) -> bool:
    if ids is None or file.unique_id is None:
        return ids is None and file.unique_id is None
    return ids.get(file.version, file.unique_id) == file.unique_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """
    A version or a snapshot that cannot be loaded.

    :param path: The missing or unusable file; the store's folder if no single file can be named.
    :param why: The reason, a sentence that names it.
    :param is_damaged: The file exists and is damaged.
    :param is_unknown: Unknown whether the version can be loaded: the ancestors of a format 2 file
        are unknown, or a file is too large to be read here. Not a proof of damage.
    """

    store: StoreRef
    state_version: int
    path: str
    why: str
    is_damaged: bool = False
    is_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """
    The files that load one version.

    :param state_version: The version they load; batch N reads version N and writes N + 1.
    :param files: Paths in the checkpoint, in the order of use: SST files and the zip or the
        snapshot, then deltas or changelogs. A visible checksum file follows its file. Empty for
        version 0, the empty state.
    :param base_version: Version of the first snapshot or zip; 0 without one.
    :param sizes: Bytes of each SST (and RocksDB log) file according to its zip, by path.
    :param avoided: Unusable snapshots newer than the base, newest first. If not empty, only Spark
        4.2 and later load this version (``autoSnapshotRepair``); older releases fail.
    :param conflict: How the ancestors named by the changelog differ from the commit log; empty if
        they agree. Spark uses the changelog.
    """

    store: StoreRef
    state_version: int
    store_type: StoreType
    files: tuple[str, ...]
    base_version: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    avoided: tuple[Missing, ...] = ()
    conflict: str = ""


def files_for(
    listing: Listing,
    read: Read,
    ref: StoreRef,
    version: int,
    ids: Mapping[int, str] | None = None,
    *,
    avoid: Collection[str] = (),
) -> Chain | Missing:
    """
    Return the files that load a version of a store, or why it cannot be loaded.

    Reads the zip that the chain starts from and, in format 2, the first changelog; no more.

    :param version: The state version; batch N + 1 loads what batch N left behind: N + 1.
    :param ids: Unique ids by version from the commit log, see ``ids_of``; ``None`` in format 1.
    :param avoid: Paths of files that are known to be damaged: a chain without them is looked for.
    :raises HomeUnavailable: the checkpoint cannot be read.
    """
    found = steps_to(listing, read, ref, version, ids)
    if isinstance(found, Unknown):
        return Missing(
            store=ref,
            state_version=version,
            path=found.path,
            why=found.why,
            is_unknown=found.is_unknown,
        )
    return _Search(listing, read, ref, version, found, frozenset(avoid)).run()


@dataclass(frozen=True, slots=True)
class _Search:
    """Search for a chain, from the newest snapshot."""

    listing: Listing
    read: Read
    ref: StoreRef
    version: int
    steps: Steps
    avoid: frozenset[str]

    def run(self) -> Chain | Missing:
        avoided: list[Missing] = []
        for base in self.steps.bases_from_newest():
            gap = self._gap_after(base)
            if gap is None and avoided and self.version - base > MAX_REPAIRED_CHANGES:
                gap = avoided[0]
            if gap is not None:
                return avoided[0] if avoided else gap
            tables = self._tables_of(base)
            if not isinstance(tables, Missing):
                return self._chain(base, tables, tuple(avoided))
            avoided.append(tables)
        return avoided[0]

    def _chain(
        self, base: int, tables: tuple[RocksFile, ...], avoided: tuple[Missing, ...]
    ) -> Chain:
        names = [table.path for table in tables]
        if base:
            names.append(self.steps.bases[base].name)
        names += [self.steps.changes[step].name for step in range(base + 1, self.version + 1)]
        return Chain(
            store=self.ref,
            state_version=self.version,
            store_type=self.steps.store_type,
            files=tuple(path for name in names for path in self._with_sidecar(name)),
            base_version=base,
            sizes={self._path(table.path): table.size for table in tables},
            avoided=avoided,
            conflict=self.steps.conflict,
        )

    def _with_sidecar(self, name: str) -> list[str]:
        path = self._path(name)
        return [path] if self._stat(name + SIDECAR) is None else [path, path + SIDECAR]

    def _stat(self, name: str) -> FileStat | None:
        # Called for every file of a store several times; most are in the store's folder itself.
        if "/" in name:
            return self.listing.stat(self._path(name))
        return self.listing.files(self.ref.folder).get(name)

    def _gap_after(self, base: int) -> Missing | None:
        for step in range(base + 1, self.version + 1):
            file = self.steps.changes.get(step)
            if file is None:
                return self._absent(step)
            if (unusable := self._unusable(file)) is not None:
                return unusable
        return None

    def _absent(self, step: int) -> Missing:
        name = self.steps.expected_name(step)
        if name is None:
            why = f"Nothing tells the id of version {step} in {self.ref.folder}."
            return self._missing("", why, is_unknown=True)
        return self._missing(name, f"{self._path(name)} is missing.")

    def _unusable(self, file: StateFile) -> Missing | None:
        if self.avoid and self._path(file.name) in self.avoid:
            return self._missing(file.name, f"{self._path(file.name)} is damaged.", is_damaged=True)
        stat = self._stat(file.name)
        if stat is None or stat.size:
            return None
        return self._missing(file.name, f"{self._path(file.name)} is empty.", is_damaged=True)

    def _tables_of(self, base: int) -> tuple[RocksFile, ...] | Missing:
        if base == 0:
            return ()
        file = self.steps.bases[base]
        if (unusable := self._unusable(file)) is not None:
            return unusable
        if file.form is not StateForm.ZIP:
            return ()
        tables = self._named_by(file)
        if isinstance(tables, Missing):
            return tables
        lost = (wrong for table in tables if (wrong := self._wrong(table, file)) is not None)
        return next(lost, tables)

    def _named_by(self, file: StateFile) -> tuple[RocksFile, ...] | Missing:
        path = self._path(file.name)
        stat = self.listing.stat(path)
        if stat is not None and stat.size > MAX_ZIP_BYTES:
            return self._missing(file.name, f"{path} is too large to be read.", is_unknown=True)
        data = self.read(path, MAX_ZIP_BYTES)
        if data is None:
            return self._missing(file.name, f"{path} is missing.")
        try:
            return parse_zip(data)
        except RecordError as err:
            return self._missing(file.name, f"{path} is damaged. {err}", is_damaged=True)

    def _wrong(self, table: RocksFile, file: StateFile) -> Missing | None:
        path = self._path(table.path)
        stat = self.listing.stat(path)
        if stat is None:
            return self._missing(table.path, f"{path} is missing; {file.name} names it.")
        if path in self.avoid:
            return self._missing(table.path, f"{path} is damaged.", is_damaged=True)
        if stat.size == table.size:
            return None
        message = f"{path} has {stat.size} bytes; {file.name} says {table.size}."
        return self._missing(table.path, message, is_damaged=True)

    def _missing(
        self, name: str, why: str, *, is_damaged: bool = False, is_unknown: bool = False
    ) -> Missing:
        return Missing(
            store=self.ref,
            state_version=self.version,
            path=self._path(name) if name else self.ref.folder,
            why=why,
            is_damaged=is_damaged,
            is_unknown=is_unknown,
        )

    def _path(self, name: str) -> str:
        return f"{self.ref.folder}/{name}"
