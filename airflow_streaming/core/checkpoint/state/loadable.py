"""
Which versions of a store can be loaded, by the names of its files alone.

This is for choosing among many versions; ``files_for`` is for the one that matters.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.checkpoint.state.names import StateFile, StateForm
from airflow_streaming.core.checkpoint.state.stores import StoreRef, state_files


def loadable_versions(
    listing: Listing, ref: StoreRef, ids: Mapping[int, str] | None = None
) -> set[int]:
    """
    Return every version whose files are all there by name; 0, the empty state, always is.

    SST files are not looked at, so a version named here may still turn out not to load. In format 2
    only versions whose id is told are returned; of their ancestors any file counts where the commit
    log does not tell the id.

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


def newest_loadable(
    listing: Listing,
    ref: StoreRef,
    at_most: int | None = None,
    ids: Mapping[int, str] | None = None,
) -> int:
    """Return the newest version of ``loadable_versions`` that is not after ``at_most``."""
    return max(
        version
        for version in loadable_versions(listing, ref, ids)
        if at_most is None or version <= at_most
    )


def _counts(file: StateFile, ids: Mapping[int, str] | None) -> bool:
    if ids is None or file.unique_id is None:
        return ids is None and file.unique_id is None
    return ids.get(file.version, file.unique_id) == file.unique_id
