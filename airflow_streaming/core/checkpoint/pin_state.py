"""The state's part of a pin: what loads one version of every store, and what describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Final

from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.checkpoint.pin_ids import ToldIds
from airflow_streaming.core.checkpoint.pin_sources import everything
from airflow_streaming.core.checkpoint.state.chain import Missing
from airflow_streaming.core.checkpoint.state.stores import StoreRef, stores
from airflow_streaming.core.checkpoint.unready import Unready
from airflow_streaming.core.foreign.tail import batch_of

_DESCRIPTIONS: Final = frozenset({"_metadata", "_stateSchema"})


def state_files_of(listing: Listing, batch: int, told: ToldIds) -> list[str] | Unready:
    """
    Return the files that load what a batch left behind, oldest of every store first.

    With them come those that load what the batch began with, where that is still whole.

    :param told: Ids of state from the commit log, of this batch and of the one before at least.
    """
    needed, spare = [], []
    for ref in stores(listing):
        found = _chain(ref, batch + 1, told)
        if isinstance(found, Unready):
            return found
        needed.append(found)
        earlier = _chain(ref, batch, told)
        spare.append([] if isinstance(earlier, Unready) else earlier)
    # A purge removes the oldest files of all stores alike.
    return list(dict.fromkeys([*_in_turn(spare), *_in_turn(needed)]))


def described_state(listing: Listing, planned: int) -> list[str]:
    """
    Return the schemas and the metadata of all operators.

    :param planned: The newest batch that is taken; Spark notes the batch in some of the names.
    """
    described = chain.from_iterable(
        everything(listing, folder) for folder in _described(listing, "state")
    )
    return [path for path in described if _noted_batch(path) <= planned]


def is_versioned_metadata(path: str) -> bool:
    """Tell whether a file is operator metadata that names its schemas by absolute paths."""
    return path.startswith("state/") and "/_metadata/v2/" in path


def _chain(ref: StoreRef, version: int, told: ToldIds) -> list[str] | Unready:
    found = told.chain(ref, version)
    if isinstance(found, Missing):
        return Unready(found.path, found.why)
    return list(found.files)


def _in_turn(chains: Iterable[list[str]]) -> Iterator[str]:
    for files in zip_longest(*chains):
        yield from (path for path in files if path is not None)


def _described(listing: Listing, folder: str) -> Iterator[str]:
    for name in listing.subfolders(folder):
        path = f"{folder}/{name}"
        if name in _DESCRIPTIONS:
            yield path
        else:
            yield from _described(listing, path)


def _noted_batch(path: str) -> int:
    """Return the batch in the name of a schema or of versioned metadata; -1 for other files."""
    name = path.rpartition("/")[2]
    if is_versioned_metadata(path):
        batch = batch_of(name)
    elif "/_stateSchema/" in path:
        batch = batch_of(name.partition("_")[0])
    else:
        batch = None
    return -1 if batch is None else batch
