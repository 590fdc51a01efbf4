"""Airflow connection to backup store or to an external checkpoint."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from airflow_streaming.checkpoints.vault.store import BackupStore, open_backup_store
from airflow_streaming.hooks.connections import connection_of
from airflow_streaming.hooks.home import StreamHomeHook, access, storage_options
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local, scheme_of, to_fsspec
from airflow_streaming.storage.folders import Folders, open_folders


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

    def get_conn(self, *, create: bool = False, home: Store | None = None) -> BackupStore:
        """
        Open the store.

        :param create: Make an empty folder a store; without it an empty one is refused.
        :param home: The home of the backed-up streams; see ``open_backup_store``.
        :raises SpecError: the URI cannot be a store, or its file system is not installed.
        :raises CheckpointError: it is not a backup store.
        :raises BackupStoreMissing: the home knows another store in this place.
        :raises HomeUnavailable: it cannot be reached.
        """
        reached = access(self.store, self.conn_id)
        return open_backup_store(self.store, **reached, create=create, home=home)


class CheckpointHook(BaseHook):
    """
    Opens a checkpoint read-only; it does not even write a probe to the store.

    Without a connection the store is reached with the credentials of the environment, as fsspec
    finds them. A connection of type ``stream_home`` works as for a home; one of another type is
    left to the provider that owns the scheme.

    :param checkpoint: Checkpoint of one query, or the folder above the checkpoints of one
        application.
    :param conn_id: Connection with credentials for its store.
    :param team: Team whose connections count; for pages.
    """

    conn_name_attr = "conn_id"
    default_conn_name = StreamHomeHook.default_conn_name
    conn_type = StreamHomeHook.conn_type
    hook_name = "Checkpoint"

    def __init__(self, checkpoint: str, conn_id: str | None = None, *, team: str = "") -> None:
        super().__init__()
        self.checkpoint = checkpoint
        self.team = team
        self.conn_id = conn_id

    def get_conn(self) -> Folders:
        """
        Open the checkpoint.

        :raises SpecError: the URI cannot be a checkpoint, or its file system is not installed.
        :raises HomeUnavailable: the file system cannot be set up, e.g. without credentials.
        """
        if self.conn_id is None or is_local(self.checkpoint):
            return open_folders(self.checkpoint)
        connection = connection_of(self.conn_id, self.team)
        if connection.conn_type == StreamHomeHook.conn_type:
            return open_folders(self.checkpoint, storage_options(self.checkpoint, connection))
        return open_folders(self.checkpoint, filesystem=self._provider_filesystem())

    def _provider_filesystem(self) -> Any:
        from airflow.sdk.io.fs import get_fs  # loads every provider

        return get_fs(scheme_of(to_fsspec(self.checkpoint)), self.conn_id)
