"""Backs a stream up before its deployment is changed."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.checkpoint.ours import Asked, backup_before, default_store
from airflow_streaming.core.checkpoint.backup import Origin
from airflow_streaming.exceptions import CheckpointBusy, CheckpointError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.hooks.backup_store import BackupStoreHook
from airflow_streaming.hooks.checkpoint import CheckpointHook
from airflow_streaming.operators._narrating import Log, Narrator


def back_up_before_upgrade(
    records: StreamHome,
    home: str,
    home_conn_id: str | None,
    *,
    store: str | None,
    by: str,
    log: Log,
) -> None:
    """
    Back up a stream whose deployment is about to be changed; nothing when it has no checkpoint.

    :param home: The home's URI.
    :param store: The backup store's URI; the home's own when not given.
    :raises AirflowFailException: it cannot be backed up as it is, so the deployment stays.
    :raises CheckpointBusy: trying again may help.
    """
    asked = Asked(
        origin=Origin.BEFORE_UPGRADE,
        by=by,
        open_folders=lambda uri: CheckpointHook(uri, home_conn_id).get_conn(),
        progress=Narrator(log),
    )
    opened = BackupStoreHook(store or default_store(home), home_conn_id).get_conn(create=True)
    try:
        backup_before(records, opened, asked)
    except CheckpointBusy:
        raise
    except CheckpointError as err:
        raise AirflowFailException(
            f"Stream {records.name!r} keeps its deployment, because it could not be backed up "
            f"before the change: {err} To change it all the same, turn backup_before_restart off."
        ) from err
