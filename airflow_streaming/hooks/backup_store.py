"""Airflow connection → backup store."""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_streaming.checkpoint.store import BackupStore, open_backup_store
from airflow_streaming.hooks._access import access
from airflow_streaming.hooks.home import StreamHomeHook


class BackupStoreHook(BaseHook):
    """
    Opens a store of backups.

    Without a connection the store is reached with the credentials of the environment, as fsspec
    finds them. A connection of type ``stream_home`` is understood as for a home; one of another
    type is left to the provider that owns the scheme.

    :param store: Absolute path or URI of the store.
    :param conn_id: Connection with credentials for it.
    """

    conn_name_attr = "conn_id"
    default_conn_name = StreamHomeHook.default_conn_name
    conn_type = StreamHomeHook.conn_type
    hook_name = "Backup store"

    def __init__(self, store: str, conn_id: str | None = None) -> None:
        super().__init__()
        self.store = store
        self.conn_id = conn_id

    def get_conn(self, *, create: bool = False) -> BackupStore:
        """
        Open the store.

        :param create: Make an empty folder a store; without it an empty one is refused.
        :raises SpecError: the URI cannot be a store, or its file system is not installed.
        :raises CheckpointError: it is no backup store.
        :raises HomeUnavailable: it cannot be reached.
        """
        return open_backup_store(self.store, **access(self.store, self.conn_id), create=create)
