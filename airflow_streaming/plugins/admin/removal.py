"""
The removal of a stream from its page: the command ``remove``, for users who administer Airflow.

A removal takes as long as its backup, which is longer than the deadline of a page's look. So it runs in a thread of
its own, and the request waits for it. If the browser disconnects, the thread continues. If the server ends, the same
act finishes the removal.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from fastapi import HTTPException, Request
from pydantic import BaseModel, Field

from airflow_streaming.changes.pruning.observe import real
from airflow_streaming.checkpoints.backup.stream_backup import default_store
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointRefused, RemovalRefused, StreamingError
from airflow_streaming.hooks.home import Access, access, access_options
from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.texts import one_line
from airflow_streaming.model.uris import is_local, to_fsspec
from airflow_streaming.plugins.access.drivers import PageDrivers
from airflow_streaming.plugins.access.kept import Kept, check_owner, keeps_still
from airflow_streaming.plugins.access.trust import check_home
from airflow_streaming.plugins.admin.installation import administers
from airflow_streaming.plugins.board import Boards, open_checked
from airflow_streaming.services.removing import RemovalRequest, RemovedStream, remove_stream
from airflow_streaming.settings import read_settings
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_blobs import open_blobs

log: Final = logging.getLogger(__name__)
MOST: Final = 2
"""Removals at once: each holds a thread for as long as a backup takes."""
SHOWN: Final = 200
"""Paths in one answer."""


class RemovalBody(BaseModel):
    """
    Parameters of a removal.

    :param reason: For the record; required unless it is a dry run.
    :param confirm: The stream's name, unless it is a dry run.
    :param keep_output: Leave the outputs in the home where they are.
    """

    dry_run: bool = True
    reason: str = Field(default="", max_length=500)
    confirm: str = Field(default="", max_length=110)
    keep_output: bool = False


class Removals:
    """Removals at work in this process, one of each stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str, bool], Future[RemovedStream]] = {}

    async def run(
        self, key: tuple[str, str, bool], act: Callable[[], RemovedStream]
    ) -> RemovedStream:
        """
        Return the result of a removal; a second request of the same waits for the first.

        :param key: Home and name of the stream, and whether it is a dry run.
        :raises RemovalRefused: as many removals are at work as may be.
        """
        with self._lock:
            future = self._running.get(key)
            if future is None:
                future = self._start(key, act)
        return await asyncio.wrap_future(future)

    def _start(
        self, key: tuple[str, str, bool], act: Callable[[], RemovedStream]
    ) -> Future[RemovedStream]:
        if len(self._running) >= MOST:
            raise RemovalRefused(
                f"{MOST} removals are at work on this API server. Try again later."
            )
        future: Future[RemovedStream] = Future()
        # A browser that goes away must not cancel it.
        future.set_running_or_notify_cancel()
        self._running[key] = future

        def work() -> None:
            try:
                result = act()
            except BaseException as err:  # noqa: BLE001 - it belongs to the page that asked
                error: BaseException | None = err
            else:
                error = None
            with self._lock:
                del self._running[key]
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="airflow-streaming-removal", daemon=True).start()
        return future


async def remove_from_page(
    request: Request, kept: Kept, body: RemovalBody, user: Any
) -> dict[str, Any]:
    """
    Remove a stream, or list the paths that a removal would delete.

    :raises HTTPException: 403 without the rights, 409 when the removal is refused, 503 when the home or the backup
        store cannot be used.
    """
    if not may_remove(kept, user):
        raise HTTPException(
            403,
            "A removal needs the right to delete the DAG and the right to delete Airflow's connections, "
            "which Airflow gives to its roles Op and Admin.",
        )
    boards: Boards = request.app.state.boards
    removals: Removals = request.app.state.removals
    by, key = str(user.get_name()), (kept.place, kept.stream, body.dry_run)
    try:
        return view(await removals.run(key, lambda: removed(kept, body, by=by)))
    except RemovalRefused as err:
        raise HTTPException(409, str(err)) from err
    except StreamingError as err:
        raise HTTPException(503, str(err)) from err
    finally:
        if not body.dry_run:
            boards.drop(kept)


def may_remove(kept: Kept, user: Any) -> bool:
    """Tell whether a user may delete the DAG and Airflow's connections."""
    manager = get_auth_manager()
    details = DagDetails(id=kept.dag.dag_id, team_name=kept.dag.team or None)
    may_delete = manager.is_authorized_dag(method="DELETE", details=details, user=user)
    return may_delete and administers(user)


def removed(kept: Kept, body: RemovalBody, *, by: str) -> RemovedStream:
    """
    Remove a stream by the service that the command calls.

    :raises RemovalRefused: the confirmation or the reason is missing, or the service refuses.
    :raises StreamingError: home or backup store cannot be used.
    """
    if not body.dry_run and body.confirm != kept.stream:
        raise RemovalRefused(
            f"The removal was not confirmed: send the name of the stream, {kept.stream!r}, with it."
        )
    if not body.dry_run and not body.reason.strip():
        raise RemovalRefused("A removal needs a reason. Nothing was removed.")
    home = open_checked(kept)
    stream = home.stream(kept.stream)
    if stream.removal() is None:
        check_owner(stream, kept)
    uri = kept.backup_store or default_store(kept.home)
    if kept.backup_store is not None:
        check_home(uri, written=kept.backup_written, allowed=read_settings().homes)
    store = None
    if not body.dry_run:
        store = open_backup_store(uri, create=True, **_access(uri, kept))
    options = access_options(kept.home, kept.home_conn_id, team=kept.dag.team)

    def inside(place: str) -> Folders:
        if not _is_inside(place, home.store.uri):
            raise CheckpointRefused(
                f"{place} lies outside of home {kept.home}, so the API server does not open it. Remove the stream "
                f"with the command: airflow-streaming remove {kept.stream} --reason TEXT."
            )
        return open_folders(place, options)

    return remove_stream(
        home,
        open_blobs(home.store.uri, **_access(kept.home, kept)),
        kept.stream,
        store,
        PageDrivers(kept).launcher,
        RemovalRequest(
            by=by,
            reason=one_line(mask_secrets(body.reason)),
            released_by="" if keeps_still(kept) else kept.dag.dag_id,
            keep_output=body.keep_output,
            dry_run=body.dry_run,
            open_folders=inside,
        ),
    )


def _access(uri: str, kept: Kept) -> Access:
    return access(uri, kept.home_conn_id, own_type_only=True, team=kept.dag.team)


def _is_inside(uri: str, root: str) -> bool:
    """Tell whether a URI names something below a root, with the links of local paths followed."""
    if is_local(uri) != is_local(root) or ".." in uri.split("/"):
        return False
    place, base = (real(one) if is_local(one) else to_fsspec(one) for one in (uri, root))
    return place.startswith(f"{base.rstrip('/')}/")


def view(done: RemovedStream) -> dict[str, Any]:
    """Return the result of a removal as the page shows it."""
    return {
        "stream": done.stream,
        "removed": list(done.removed[:SHOWN]),
        "removed_total": len(done.removed),
        "kept": list(done.kept[:SHOWN]),
        "backups": list(done.backups),
        "refusals": list(done.refusals),
    }
