"""
State stores: where they lie in a checkpoint, and what may lie there by mistake.

``state/<operator>/<partition>/`` is a store of its own unless the operator has several stores,
as a join of two streams has; each of those has a folder of its name in there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from airflow_streaming.core.checkpoint.listing import Listing, is_hidden
from airflow_streaming.core.checkpoint.report import StoreType
from airflow_streaming.core.checkpoint.state.names import StateFile, StateForm, parse_name

StateIds = Mapping[int, Sequence[Sequence[str]]]
"""The unique ids of one commit: operator -> partition -> store (``CommitLog.state_ids``)."""

DEFAULT_STORE: Final = "default"

SST_FOLDER: Final = "SSTs"
LOG_FOLDER: Final = "logs"

_NOT_STORES: Final = frozenset({SST_FOLDER, LOG_FOLDER, "_metadata"})
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_HDFS_FORMS: Final = frozenset({StateForm.DELTA, StateForm.SNAPSHOT})

# A commit lists the ids of a join's stores without their names, in this order.
_JOIN_ORDER: Final = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)


class StoreRef(NamedTuple):
    """
    One state store of one partition.

    :param name: ``default`` but for operators with several stores.
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

    Only files of format 1 count: those of format 2 are asked for by id, so a leftover is never
    loaded.

    :param version: The newest version that can have been written by then: the newest planned
        batch + 1.
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
