"""The streams of a store, as a person names them."""

from __future__ import annotations

from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.exceptions import CheckpointError


def check_stream(store: BackupStore, name: str) -> None:
    """
    Make sure that a store has a stream.

    :raises CheckpointError: it has none of that name; those it has are named.
    """
    streams = store.streams()
    if name not in streams:
        raise CheckpointError(
            f"There is no stream {name!r} in {store.uri}. Its streams are: "
            f"{', '.join(streams) or 'none'}."
        )
