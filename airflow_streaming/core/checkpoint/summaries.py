"""The stateful operators of a checkpoint as its report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_streaming.core.checkpoint.listing import Listing, is_hidden
from airflow_streaming.core.checkpoint.report import Operator, StateStore, StoreType
from airflow_streaming.core.checkpoint.state.stores import (
    LOG_FOLDER,
    SST_FOLDER,
    StoreRef,
    store_type,
)
from airflow_streaming.core.checkpoint.stateful import State


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
