"""Airflow connection → home."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from airflow.sdk import BaseHook

from airflow_streaming.core.uris import is_local, scheme_of, to_fsspec
from airflow_streaming.exceptions import SpecError
from airflow_streaming.files.store import Store
from airflow_streaming.home.home import Home, open_home

if TYPE_CHECKING:
    from airflow.sdk import Connection

_stores: Final[WeakValueDictionary[tuple[str, str], Store]] = WeakValueDictionary()
"""Stores of those who only look, by home and digest of the credentials. A client of an object store
takes megabytes and connections of its own, and a triggerer watches a thousand streams."""


class StreamHomeHook(BaseHook):
    """
    Opens the folder in which streams keep their records.

    Without a connection the store is reached with the credentials of the environment, as fsspec
    finds them. A connection of type ``stream_home`` carries a key, a secret, an endpoint and a
    region; a connection of another type is left to the provider that owns the scheme.

    :param home: Absolute path or URI of the home.
    :param home_conn_id: Connection with credentials for the home's store.
    :param looks_only: Open without the probe that writes; for triggers and pages.
    """

    conn_name_attr = "home_conn_id"
    default_conn_name = "stream_home_default"
    conn_type = "stream_home"
    hook_name = "Stream home"

    def __init__(
        self, home: str, home_conn_id: str | None = None, *, looks_only: bool = False
    ) -> None:
        super().__init__()
        self.home = home
        self.home_conn_id = home_conn_id
        self.looks_only = looks_only

    def get_conn(self) -> Home:
        """
        Open the home, proving on its first use that its store honours exclusive create.

        :raises SpecError: the URI cannot be a home.
        :raises HomeError: the home cannot be reached, or its store lets two writers win.
        """
        if self.home_conn_id is None or is_local(self.home):
            return self._open(dict)
        connection = self.get_connection(self.home_conn_id)
        if connection.conn_type != self.conn_type:
            return self._open(self._foreign_filesystem, connection.get_uri())
        options = storage_options(self.home, connection)
        return self._open(
            lambda: {"storage_options": options}, json.dumps(options, sort_keys=True, default=str)
        )

    def _foreign_filesystem(self) -> dict[str, Any]:
        from airflow.sdk.io.fs import get_fs  # loads every provider

        return {"filesystem": get_fs(scheme_of(to_fsspec(self.home)), self.home_conn_id)}

    def _open(self, options: Callable[[], dict[str, Any]], credentials: str = "") -> Home:
        if not self.looks_only:
            return open_home(self.home, **options())
        if is_local(self.home):
            return open_home(self.home, probe=False)
        key = (self.home, hashlib.sha256(credentials.encode()).hexdigest())
        store = _stores.get(key)
        if store is None:
            # Not under a lock: a store that is slow to answer must not hold up the others. Of two
            # that are opened at once, the first is kept.
            opened = open_home(self.home, probe=False, **options()).store
            store = _stores.setdefault(key, opened)
        return Home(store)

    def test_connection(self) -> tuple[bool, str]:
        """Open the home named in the connection's host and list its streams."""
        try:
            streams = self.get_conn().streams()
        except Exception as err:  # noqa: BLE001 - the form shows whatever went wrong
            return False, str(err)
        return True, f"The home holds {len(streams)} streams."


def storage_options(home: str, connection: Connection) -> dict[str, Any]:
    """
    Return fsspec options from the named fields of a ``stream_home`` connection.

    Only fields known here are used: an extra that could name a class or a program is not passed on.

    :raises SpecError: the home's scheme has no mapping.
    """
    extra = connection.extra_dejson
    match scheme_of(to_fsspec(home)):
        case "s3":
            client = {
                "endpoint_url": extra.get("endpoint_url"),
                "region_name": extra.get("region"),
            }
            options: dict[str, Any] = {"key": connection.login, "secret": connection.password}
            options["client_kwargs"] = {name: value for name, value in client.items() if value}
        case "gs":
            options = {"project": extra.get("project"), "token": connection.password}
        case "abfs" | "abfss":
            options = {"account_name": connection.login, "account_key": connection.password}
        case "hdfs" | "webhdfs":
            options = {
                "host": connection.host,
                "port": connection.port,
                "user": connection.login,
            }
        case scheme:
            raise SpecError(
                f"A stream_home connection cannot hold credentials for {scheme!r}. Use the "
                "connection type of the provider that owns this scheme."
            )
    return {name: value for name, value in options.items() if value}
