"""
A home: the folder that is the record of all its streams.

The home has no server and no lock; write access to the folder is the right to act, read access the
right to see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_streaming.exceptions import AccessDenied, RecordError, StreamRemoved
from airflow_streaming.home.changes import BatchPauses, Changes, Cutovers
from airflow_streaming.home.control import AlertLog, Control, Owners, Timeline
from airflow_streaming.home.deployments import Claims, Deployments, LivePointer, Removals
from airflow_streaming.home.epochs import Epochs, Plans, Standby
from airflow_streaming.home.freshness import FreshnessRecords
from airflow_streaming.home.repairs import Repairs
from airflow_streaming.home.windows import Windows
from airflow_streaming.model.names import STANDBY_SUFFIX, base_of, is_lane
from airflow_streaming.model.records.control import (
    Change,
    ChangeKind,
    Desired,
    DesiredState,
    StreamRemoval,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, LaunchCause
from airflow_streaming.model.records.owner import Actor, Owner
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.fsspec_store import open_store
from airflow_streaming.storage.one_look import look_at_each
from airflow_streaming.storage.probe import ensure_exclusive


class StreamHome(
    Deployments,
    Claims,
    Changes,
    Cutovers,
    Epochs,
    Standby,
    Plans,
    Control,
    Timeline,
    AlertLog,
    LivePointer,
    Owners,
    Removals,
    Repairs,
    Windows,
    FreshnessRecords,
    BatchPauses,
):
    """
    Every record of one stream.

    Methods raise ``HomeUnavailable`` when the store cannot be reached, and ``RecordError``, naming
    the file, for a malformed record.

    A write that would revive a removed stream raises ``StreamRemoved``.
    """

    def removal(self) -> Change | None:
        """Return the removal of the stream; ``None`` while it is there, or when its name was freed."""
        found = self._stream().unfinished_change()
        return found if found is not None and found.what is ChangeKind.REMOVE else None

    def next_deployment(self) -> int:
        """Return the next deployment's number; a removed stream's numbers are never reused."""
        numbers = self.deployment_numbers()
        if numbers:
            return numbers[-1] + 1
        removed = (one for one in self._stream().changes() if one.what is ChangeKind.REMOVE)
        return max((one.deployment for one in removed), default=0) + 1

    def create_deployment(self, deployment: Deployment, source: bytes) -> None:
        self.check_not_removed()
        super().create_deployment(deployment, source)

    def create_epoch(self, epoch: Epoch) -> None:
        if epoch.cause is not LaunchCause.FENCE:
            self.check_not_removed()
        super().create_epoch(epoch)

    def want(
        self,
        state: DesiredState,
        *,
        by: str,
        reason: str,
        now: datetime,
        until: datetime | None = None,
    ) -> Desired:
        if state is DesiredState.RUNNING:
            self.check_not_removed()
        return super().want(state, by=by, reason=reason, now=now, until=until)

    def want_next(self, desired: Desired) -> bool:
        if desired.state is DesiredState.RUNNING:
            self.check_not_removed()
        return super().want_next(desired)

    def claim_ownership(
        self, actor: Actor, shared_with: Sequence[str] = (), *, by: str, now: datetime
    ) -> Owner:
        self.check_not_removed()
        return super().claim_ownership(actor, shared_with, by=by, now=now)

    def _stream(self) -> StreamHome:
        """Return the records of the base lane, which holds the removal of all of them."""
        return self.beside(base_of(self.name.removesuffix(STANDBY_SUFFIX)))

    def check_not_removed(self) -> None:
        """
        Do nothing unless the stream was removed.

        :raises StreamRemoved: it was, and its name was not freed.
        """
        removal = self.removal()
        if removal is not None:
            raise StreamRemoved(removed_text(self._stream().name, removal))


def removed_text(stream: str, removal: Change) -> str:
    """Return that a stream was removed, by which user and why, and how its name can be used again."""
    backup = (
        f" Its checkpoint is in backup {removal.backup} of {removal.store}."
        if removal.backup
        else ""
    )
    return (
        f"Stream {stream!r}: {StreamRemoval(change=removal)}{backup} To use the name for a new stream: "
        f"airflow-streaming reuse {stream} --reason TEXT."
    )


class Home:
    """The records of all streams under one URI."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def streams(
        self, folders: Sequence[str] | None = None, looks: Mapping[str, Store] | None = None
    ) -> list[str]:
        """
        Return the names of the streams that have a deployment, sorted.

        Folders whose name cannot be a stream's are skipped.

        :param folders: The listing of the home's root, if known.
        :param looks: The store by which each folder is looked at; default: the home's own.
        """
        names = [*filter(is_lane, self.store.names("") if folders is None else folders)]
        stores = looks or {}

        def is_stream(name: str) -> bool:
            return _is_stream(stores.get(name, self.store), name)

        found = look_at_each(self.store, is_stream, names)
        return [name for name, is_there in zip(names, found, strict=True) if is_there]

    def why_unknown(self, name: str) -> str:
        """Return why a stream without a deployment cannot be used, and what to do."""
        known = self.streams()
        removal = self.stream(name).removal()
        if removal is not None:
            return removed_text(base_of(name), removal)
        if name in known:
            return (
                f"Stream {name!r} in {self.store.uri} has no deployment: its keep-alive task makes the "
                "first one. If it has run before, check that the home is mounted whole."
            )
        return (
            f"Stream {name!r} does not exist in {self.store.uri}. Existing streams: "
            f"{', '.join(known) or 'none'}."
        )

    def stream(self, name: str) -> StreamHome:
        """Return the records of one stream; it need not have any yet."""
        return StreamHome(self.store, name)


def _is_stream(store: Store, name: str) -> bool:
    try:
        return "deployments" in store.names(name)
    except (RecordError, AccessDenied):
        # Something in a stream's place, or no right to look: reading it reports what, and the others
        # are read.
        return True


def open_home(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    *,
    looks_only: bool = False,
) -> Home:
    """
    Open a home as it is; nothing is written, and nothing needs to be there.

    :param uri: An absolute folder or a URI such as ``s3://bucket/streams``.
    :raises SpecError: the URI cannot be a home.
    """
    return Home(open_store(uri, storage_options, filesystem, looks_only=looks_only))


def init_home(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Home:
    """
    Make a place a home, after a race of writers has proved that its store can be relied on.

    Call it on a user's explicit word only: in place of an unmounted home it would let a second driver
    start beside the living one. A home stays as it is.

    :raises HomeNotExclusive: its store lets two writers create one file.
    :raises HomeUnavailable: it cannot be reached, or not be written.
    """
    home = open_home(uri, storage_options, filesystem)
    ensure_exclusive(home.store)
    return home
