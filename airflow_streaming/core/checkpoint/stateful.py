"""
State: the stateful operators of a checkpoint, their stores, and what was written down of them.

Nothing is judged here; that is for ``integrity``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.checkpoint.journal import PARTITIONS, Journal
from airflow_streaming.core.checkpoint.listing import Listing, Read, is_hidden
from airflow_streaming.core.checkpoint.operators import OperatorMetadata, parse_operator_metadata
from airflow_streaming.core.checkpoint.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.core.checkpoint.state.loadable import loadable_versions
from airflow_streaming.core.checkpoint.state.names import StateFile
from airflow_streaming.core.checkpoint.state.stores import StoreRef, ids_of, state_files, stores
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES
from airflow_streaming.exceptions import RecordError

STATE: Final = "state"

_NO_TYPE: Final = ("void", "null")
"""Types of a column that holds nothing, such as a limit's key."""

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """
    The state of one checkpoint.

    :param operators: Numbers of the operators that have a folder.
    :param partitions: Numbers of the partitions that have a folder, by operator.
    :param refs: Stores of the partitions that Spark would open, see ``expected``.
    :param extra: Stores of partitions beyond those.
    :param expected: How many partitions Spark would open, by operator; ``None`` when unknown.
    :param metadata: Newest metadata of each operator that has one that can be read.
    :param unreadable: Metadata that cannot be read: path and why.
    :param files: State files of each store, of ``refs`` and ``extra``.
    :param ids: Unique ids of each store by version; ``None`` in state checkpoint format 1.
    :param loadable: Versions of each store whose files are all there by name.
    """

    operators: tuple[int, ...]
    partitions: Mapping[int, tuple[int, ...]]
    refs: tuple[StoreRef, ...]
    extra: tuple[StoreRef, ...]
    expected: Mapping[int, int | None]
    metadata: Mapping[int, OperatorMetadata]
    unreadable: Mapping[str, str]
    files: Mapping[StoreRef, Sequence[StateFile]]
    ids: Mapping[StoreRef, Mapping[int, str] | None]
    loadable: Mapping[StoreRef, frozenset[int]]
    state_format: int | None

    def of(self, operator: int) -> list[StoreRef]:
        """Return the stores of one operator that Spark would open."""
        return [ref for ref in self.refs if ref.operator == operator]


def read_state(listing: Listing, read: Read, journal: Journal) -> State:
    """
    Gather the stateful operators.

    :raises HomeUnavailable: the store cannot be reached.
    """
    operators = numbered(listing, STATE)
    partitions = {number: numbered(listing, f"{STATE}/{number}") for number in operators}
    metadata, unreadable = _metadata(listing, read, operators)
    expected = {
        number: 1
        if partitions[number] == (0,) and _has_one_key(read, number)
        else _expected(partitions[number], metadata.get(number), _pinned(journal))
        for number in operators
    }
    refs, extra = _divided(stores(listing), expected)
    files = {ref: state_files(listing, ref) for ref in (*refs, *extra)}
    commits = {batch: commit.state_ids for batch, commit in journal.commits.items()}
    ids = {ref: ids_of(ref, commits, listing) for ref in refs}
    return State(
        operators=operators,
        partitions=partitions,
        refs=refs,
        extra=extra,
        expected=expected,
        metadata=metadata,
        unreadable=unreadable,
        files=files,
        ids=ids,
        loadable={ref: frozenset(loadable_versions(listing, ref, ids[ref])) for ref in refs},
        state_format=_format(files, journal),
    )


def numbered(listing: Listing, folder: str) -> tuple[int, ...]:
    """Return the numbers among the names of a folder's folders, in order."""
    names = listing.subfolders(folder)
    return tuple(sorted(int(name) for name in names if _NUMBER.fullmatch(name)))


def metadata_paths(listing: Listing, operator: int) -> list[str]:
    """Return the files of an operator's metadata, the newest last."""
    folder = f"{STATE}/{operator}/_metadata"
    first = [f"{folder}/metadata"] if listing.stat(f"{folder}/metadata") is not None else []
    batches = [name for name in listing.files(f"{folder}/v2") if not is_hidden(name)]
    numbers = sorted(int(name) for name in batches if _NUMBER.fullmatch(name))
    return [*first, *(f"{folder}/v2/{number}" for number in numbers)]


def _metadata(
    listing: Listing, read: Read, operators: tuple[int, ...]
) -> tuple[dict[int, OperatorMetadata], dict[str, str]]:
    found, unreadable = {}, {}
    for operator in operators:
        for path in metadata_paths(listing, operator):
            try:
                data = read(path, MAX_LOG_BYTES)
                if data is not None:
                    found[operator] = parse_operator_metadata(data)
            except RecordError as err:
                unreadable[path] = str(err)
    return found, unreadable


def _pinned(journal: Journal) -> int | None:
    plan = journal.committed_plan or journal.newest_plan
    text = plan.conf.get(PARTITIONS, "") if plan else ""
    return int(text) if _NUMBER.fullmatch(text) and text != "0" else None


def _has_one_key(read: Read, operator: int) -> bool:
    # A limit and an aggregate without keys have one partition, whatever the plan pins and the
    # metadata of Spark 4 says: seen of a limit with numPartitions 2.
    try:
        data = read(f"{STATE}/{operator}/0/_metadata/schema", MAX_SCHEMA_BYTES)
        schema = None if data is None else parse_state_schema(data)
    except RecordError:
        return False
    keys = [family.key for family in schema.families] if schema else []
    return bool(keys) and all(field.type in _NO_TYPE for key in keys for field in key)


def _expected(
    partitions: tuple[int, ...], metadata: OperatorMetadata | None, pinned: int | None
) -> int | None:
    told = max((store.partitions for store in metadata.stores), default=0) if metadata else 0
    if told == 1 or (not told and partitions == (0,)):
        return 1
    # The plan knows of a repartition, the metadata may be older.
    return pinned or told or None


def _divided(
    refs: list[StoreRef], expected: Mapping[int, int | None]
) -> tuple[tuple[StoreRef, ...], tuple[StoreRef, ...]]:
    inside: list[StoreRef] = []
    beyond: list[StoreRef] = []
    for ref in refs:
        most = expected.get(ref.operator)
        (inside if most is None or ref.partition < most else beyond).append(ref)
    return tuple(inside), tuple(beyond)


def _format(files: Mapping[StoreRef, Sequence[StateFile]], journal: Journal) -> int | None:
    if any(commit.state_ids for commit in journal.commits.values()):
        return 2
    if not files:
        return None
    return 2 if any(file.unique_id for each in files.values() for file in each) else 1
