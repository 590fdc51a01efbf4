"""
The stateful operators of a checkpoint: their stores, schema files and summary.

Checks are in ``integrity``.

An operator without state variables has one file for each store, in partition 0. An operator with
state variables (transformWithState) names its files by absolute paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.journal import PARTITIONS, Journal
from airflow_streaming.checkpoints.read.operators import OperatorMetadata, parse_operator_metadata
from airflow_streaming.checkpoints.read.report import Operator, StateStore, StoreType
from airflow_streaming.checkpoints.read.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.checkpoints.state.chain import loadable_versions
from airflow_streaming.checkpoints.state.stores import (
    DEFAULT_STORE,
    LOG_FOLDER,
    SST_FOLDER,
    StateFile,
    StoreRef,
    ids_of,
    state_files,
    store_type,
    stores,
)
from airflow_streaming.exceptions import RecordError
from airflow_streaming.model.spark.listing import Listing, Read, is_hidden
from airflow_streaming.model.spark.logs import MAX_LOG_BYTES

STATE: Final = "state"
_NO_TYPE: Final = ("void", "null")
"""Types of a column that holds nothing, such as a limit's key."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/*(.*)", re.DOTALL)
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "local": "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """
    The state of one checkpoint.

    :param operators: Numbers of the operators with a folder.
    :param partitions: Numbers of the partitions with a folder, by operator.
    :param refs: Stores of the partitions that Spark would open, see ``expected``.
    :param extra: Stores of other partitions.
    :param expected: Number of partitions Spark would open, by operator; ``None`` if unknown.
    :param metadata: Newest readable metadata of each operator.
    :param unreadable: Unreadable metadata: path and reason.
    :param files: State files of each store, of ``refs`` and ``extra``.
    :param ids: Unique ids of each store by version; ``None`` in state checkpoint format 1.
    :param loadable: Versions of each store whose files are all present by name.
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
    """Gather the stateful operators."""
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
    # A limit and an aggregate without keys have one partition, whatever number the plan pins and
    # the metadata of Spark 4 names: seen with a limit with numPartitions 2.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """
    A schema file.

    :param path: Its path in this checkpoint, ``None`` if it is outside.
    :param named: The absolute path in the operator's metadata, if any.
    :param is_foreign: The named path is outside this checkpoint.
    :param is_comparable: Whether ``is_foreign`` is certain: the same store can have two names.
    """

    operator: int
    path: str | None
    named: str = ""
    is_foreign: bool = False
    is_comparable: bool = True


def schema_files(state: State, places: Sequence[str]) -> list[SchemaFile]:
    """
    Return the schema files that a checkpoint should have.

    :param places: URIs that all mean this checkpoint.
    """
    found = []
    for operator in state.operators:
        metadata = state.metadata.get(operator)
        if metadata is not None and metadata.version >= 2:
            paths = [path for store in metadata.stores for path in store.schema_paths]
            found += [_named(operator, path, places) for path in paths]
        else:
            names = sorted({ref.name for ref in state.of(operator)})
            found += [SchemaFile(operator=operator, path=_own(operator, name)) for name in names]
    return found


def _own(operator: int, store: str) -> str:
    inner = "" if store == DEFAULT_STORE else f"/{store}"
    return f"{STATE}/{operator}/0{inner}/_metadata/schema"


def _named(operator: int, named: str, places: Sequence[str]) -> SchemaFile:
    scheme, path = _place(named)
    for place in places:
        own_scheme, own_path = _place(place)
        if scheme == own_scheme and path.startswith(f"{own_path}/"):
            inner = path.removeprefix(f"{own_path}/")
            return SchemaFile(operator=operator, path=inner, named=named)
    is_comparable = any(_place(place)[0] == scheme for place in places)
    marker = f"/{STATE}/{operator}/"
    inner = path.rpartition(marker)[2] if marker in path else ""
    return SchemaFile(
        operator=operator,
        path=f"{STATE}/{operator}/{inner}" if inner else None,
        named=named,
        is_foreign=True,
        is_comparable=is_comparable,
    )


def _place(uri: str) -> tuple[str, str]:
    match = _URI.fullmatch(uri)
    if match is None:
        return "file", uri.strip("/")
    scheme = match[1].lower()
    return _SAME.get(scheme, scheme), match[2].strip("/")


def operators(
    listing: Listing, state: State, schema_versions: Mapping[int, int]
) -> tuple[Operator, ...]:
    """Return the operators by number."""
    found = []
    for number in state.operators:
        metadata, refs = state.metadata.get(number), state.of(number)
        names = sorted({ref.name for ref in refs})
        found.append(
            Operator(
                id=number,
                name=metadata.name if metadata else None,
                partitions=len(state.partitions[number]) or None,
                stores=tuple(
                    _store(listing, state, [ref for ref in refs if ref.name == name])
                    for name in names
                ),
                schema_version=schema_versions.get(number),
                state=metadata.properties if metadata else {},
            )
        )
    return tuple(found)


def _store(listing: Listing, state: State, refs: Sequence[StoreRef]) -> StateStore:
    types = {store_type(state.files[ref]) for ref in refs} - {StoreType.UNKNOWN}
    common = frozenset.intersection(*(state.loadable[ref] for ref in refs))
    sizes = [size for ref in refs for size in _sizes(listing, ref.folder)]
    return StateStore(
        name=refs[0].name,
        store=_one_of(types),
        partitions=len(refs),
        newest_version=max(common, default=None) or None,
        files=len(sizes),
        size=sum(sizes),
    )


def _one_of(types: set[StoreType]) -> StoreType:
    # A store that has just been given a changelog has it in some partitions first.
    if types == {StoreType.ROCKSDB, StoreType.ROCKSDB_CHANGELOG}:
        return StoreType.ROCKSDB_CHANGELOG
    return next(iter(types)) if len(types) == 1 else StoreType.UNKNOWN


def _sizes(listing: Listing, folder: str) -> list[int]:
    inside = (folder, f"{folder}/{SST_FOLDER}", f"{folder}/{LOG_FOLDER}", f"{folder}/_metadata")
    return [
        stat.size
        for each in inside
        for name, stat in listing.files(each).items()
        if not is_hidden(name)
    ]
