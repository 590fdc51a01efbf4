"""
A home: the folder that is the record of all its streams.

Everything that has to happen once is a file that can be created once. The home has no server and
no lock; whoever can write to the folder can act, and whoever can read it can see what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_streaming.core.names import is_path_part
from airflow_streaming.files.store import Store
from airflow_streaming.home.alerts import AlertLog
from airflow_streaming.home.changes import Changes
from airflow_streaming.home.control import Control
from airflow_streaming.home.cutovers import Cutovers
from airflow_streaming.home.deployments import Deployments
from airflow_streaming.home.epochs import Epochs
from airflow_streaming.home.live import LivePointer
from airflow_streaming.home.opening import open_store
from airflow_streaming.home.plans import Plans
from airflow_streaming.home.probe import ensure_exclusive
from airflow_streaming.home.standby import Standby
from airflow_streaming.home.timeline import Timeline


class StreamHome(
    Deployments, Changes, Cutovers, Epochs, Standby, Plans, Control, Timeline, AlertLog, LivePointer
):
    """
    Every record of one stream.

    Methods raise ``HomeUnavailable`` when the store cannot be reached, and ``RecordError``, naming
    the file, for a record that is not what it should be.

    :param store: The home's store.
    :param name: The stream's name.
    :raises SpecError: the name cannot be a folder.
    """


class Home:
    """
    The records of all streams under one URI.

    :param store: Where they lie.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def streams(self) -> list[str]:
        """Return the names of the streams that have a deployment, sorted."""
        names = filter(is_path_part, self.store.names(""))
        return [name for name in names if "deployments" in self.store.names(name)]

    def stream(self, name: str) -> StreamHome:
        """
        Return the records of one stream; it need not have any yet.

        :raises SpecError: the name cannot be a folder.
        """
        return StreamHome(self.store, name)


def open_home(
    uri: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    *,
    probe: bool = True,
) -> Home:
    """
    Open a home, and on its first use make sure that it can be relied on.

    :param uri: An absolute folder or a URI such as ``s3://bucket/streams``.
    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :param probe: Race writers against each other unless this home is known to stand it. Leave it
        on wherever something is written; with ``False`` opening writes nothing.
    :raises SpecError: the URI cannot be a home.
    :raises HomeNotExclusive: its store lets two writers create one file.
    :raises HomeUnavailable: it cannot be reached, or not be written.
    """
    store = open_store(uri, storage_options, filesystem)
    if probe:
        ensure_exclusive(store)
    return Home(store)
