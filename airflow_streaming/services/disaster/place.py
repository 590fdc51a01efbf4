"""The home of disaster drills: which places it may have. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.checkpoints.vault.layout import check_apart, check_outside, folders_above
from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.home.home import Home
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import MAX_RECORD_BYTES
from airflow_streaming.storage.blobs import Blobs
from airflow_streaming.storage.folders import Folders, open_folders
from airflow_streaming.storage.fsspec_blobs import open_blobs
from airflow_streaming.storage.probe import RECORD

_HOME: Final = "home of the drill"
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlace:
    """
    The home of drills.

    :param storage_options: Passed to fsspec for its checkpoints.
    """

    store: Store
    storage_options: Mapping[str, Any] | None = None

    @property
    def blobs(self) -> Blobs:
        return open_blobs(self.store.uri, self.storage_options)


def check_place(place: DrillPlace, home: str, backups: str) -> None:
    """
    Refuse a home of drills that overlaps the live home, another home with streams, a checkpoint or backups.

    :param home: URI of the live home.
    :param backups: URI of the backup store.
    :raises SpecError: it does; both are named.
    """
    uri = place.store.uri
    check_apart(home, uri, what="live home", other=_HOME)
    check_apart(backups, uri, what="backup store", other=_HOME)
    streams = Home(place.store).streams()
    if streams:
        raise SpecError(
            f"{uri} is a home with streams ({', '.join(streams[:_MOST_NAMED])}). Nothing was written. Choose another "
            f"place for the {_HOME}."
        )
    folders = open_folders(uri, place.storage_options)
    check_outside(folders)
    inside = next((one.uri for one in folders_above(folders) if _is_home(one)), None)
    if inside is not None:
        raise SpecError(
            f"{uri} lies inside the home {inside}. Nothing was written. Choose another place for the {_HOME}."
        )


def _is_home(folder: Folders) -> bool:
    try:
        return folder.read(RECORD, MAX_RECORD_BYTES) is not None
    except (HomeUnavailable, RecordError):
        return False  # no right to look there, so nothing is known of it
