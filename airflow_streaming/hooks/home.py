"""Airflow connection to home."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from airflow.sdk import BaseHook

from airflow_streaming.exceptions import HomeNotAllowed, SpecError
from airflow_streaming.home.home import Home, init_home, open_home
from airflow_streaming.hooks.clusters import kubernetes_credentials
from airflow_streaming.hooks.connections import connection_of
from airflow_streaming.launch.clusters.kubernetes_api import log_in_by
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local, scheme_of, to_fsspec, to_hadoop
from airflow_streaming.storage.probe import check_initialized

if TYPE_CHECKING:
    from airflow.sdk import Connection


# All code that opens homes in Airflow's processes also looks at drivers, with Airflow's
# connections.
log_in_by(kubernetes_credentials)


_stores: Final[WeakValueDictionary[tuple[str, str], Store]] = WeakValueDictionary()
"""Stores of those who only look, by home and digest of the credentials. A client of an object store
takes megabytes and connections of its own, and a triggerer watches a thousand streams."""

_LOGS_IN: Final = re.compile(
    r"^spark\.hadoop\.fs\.(s3a\..*(access\.key|credentials\.provider)"
    r"|gs\.auth\.|azure\..*(account\.key|account\.auth|account\.oauth))"
)


class StreamHomeHook(BaseHook):
    """
    Opens the folder in which streams keep their records.

    Without a connection the store is reached with the credentials of the environment, as fsspec
    finds them. A connection of type ``stream_home`` carries a key, a secret, an endpoint and a
    region; a connection of another type is left to the provider that owns the scheme.

    :param home: Absolute path or URI of the home; by default the connection's field ``home``.
    :param home_conn_id: Connection with credentials for the home's store.
    :param looks_only: Open a place that need not be a home, and give up on a store that does not
        answer after a few seconds; for triggers and pages.
    :param has_seen_home: Open a place that need not be a home now, since the caller remembers its
        streams and judges by that whether the home has vanished.
    :param own_type_only: Refuse a connection of another type than ``stream_home``, whose provider
        would connect; for pages.
    :param team: Team whose connections count; for pages.
    """

    conn_name_attr = "home_conn_id"
    default_conn_name = "stream_home_default"
    conn_type = "stream_home"
    hook_name = "Stream home"

    def __init__(
        self,
        home: str = "",
        home_conn_id: str | None = None,
        *,
        looks_only: bool = False,
        has_seen_home: bool = False,
        own_type_only: bool = False,
        team: str = "",
    ) -> None:
        super().__init__()
        self.team = team
        self.home = home
        self.home_conn_id = home_conn_id
        self.looks_only = looks_only
        self.has_seen_home = has_seen_home
        self.own_type_only = own_type_only

    def get_conn(self) -> Home:
        """
        Open the home.

        :raises SpecError: the URI is missing or invalid.
        :raises HomeNotAllowed: the connection is of another type, and only ours may be used.
        :raises HomeNotInitialized: the place is not a home: not mounted, another, or new.
        :raises HomeUnavailable: the home cannot be reached.
        """
        return self._connect(self._open)

    def init(self) -> Home:
        """
        Make the place a home, on a user's explicit word only; see ``init_home``.

        :raises SpecError: none is named, or the URI cannot be one.
        :raises HomeError: the place cannot be reached, or its store lets two writers win.
        """
        return self._connect(lambda options, _="": init_home(self.home, **options()))

    def _connect(self, opened: Callable[..., Home]) -> Home:
        if not self.home:
            self.home = self._named_home()
        if self.home_conn_id is None or is_local(self.home):
            return opened(dict)
        connection = connection_of(self.home_conn_id, self.team)
        if connection.conn_type != self.conn_type:
            if self.own_type_only:
                raise _another_type(self.home_conn_id, connection)
            return opened(self._provider_filesystem, connection.get_uri())
        options = storage_options(self.home, connection)
        return opened(
            lambda: {"storage_options": options}, json.dumps(options, sort_keys=True, default=str)
        )

    def _provider_filesystem(self) -> dict[str, Any]:
        from airflow.sdk.io.fs import get_fs  # loads every provider

        return {"filesystem": get_fs(scheme_of(to_fsspec(self.home)), self.home_conn_id)}

    def _open(self, options: Callable[[], dict[str, Any]], credentials: str = "") -> Home:
        if not self.looks_only:
            home = open_home(self.home, **options())
            if not self.has_seen_home:
                check_initialized(home.store)
            return home
        if is_local(self.home):
            return open_home(self.home)
        key = (self.home, hashlib.sha256(credentials.encode()).hexdigest())
        store = _stores.get(key)
        if store is None:
            # Not under a lock: a store that is slow to answer must not hold up the others. Of two
            # that are opened at once, the first is kept.
            opened = open_home(self.home, looks_only=True, **options()).store
            store = _stores.setdefault(key, opened)
        return Home(store)

    def test_connection(self) -> tuple[bool, str]:
        """Open the home that the connection names and count its streams; nothing is written."""
        try:
            home = self.home or self._named_home()
            hook = StreamHomeHook(home, self.home_conn_id, looks_only=True)
            streams = hook.get_conn().streams()
        except Exception as err:  # noqa: BLE001 - the form shows whatever went wrong
            return False, str(err)
        return True, f"The home {home} holds {len(streams)} streams."

    def _named_home(self) -> str:
        conn_id = self.home_conn_id
        connection = None if conn_id is None else connection_of(conn_id, self.team)
        home = None if connection is None else connection.extra_dejson.get("home")
        if not isinstance(home, str) or not home:
            raise SpecError(
                f"Connection {self.home_conn_id!r} names no home to open. Fill in its field 'Home', "
                "or give the operator or hook a home."
            )
        return home


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


def _another_type(conn_id: str, connection: Connection) -> HomeNotAllowed:
    return HomeNotAllowed(
        f"Connection {conn_id!r} is of type {connection.conn_type!r}. The API server opens homes and "
        f"backup stores with connections of type {StreamHomeHook.conn_type!r} only."
    )


def store_access(home: str, home_conn_id: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """
    Return the settings by which a Spark of a stream reaches the home as Airflow does.

    :param home_conn_id: Connection with credentials for the home.
    :param conf: The stream's own; when it says how to log in to this kind of store, it counts.
    :returns: Empty without a connection, for a local home, and for a connection of another type: only its
        provider knows its fields.
    """
    if home_conn_id is None or is_local(home):
        return {}
    connection = connection_of(home_conn_id)
    if connection.conn_type != StreamHomeHook.conn_type:
        return {}
    return hadoop_options(home, connection, conf)


def hadoop_options(home: str, connection: Connection, conf: Mapping[str, str]) -> dict[str, str]:
    """
    Return the Spark configuration by which a driver reaches a home with the same connection.

    The settings apply only to the home's own bucket or account, so that a stream's sources may use
    other credentials. Without a key no provider of credentials is set: Hadoop uses the environment
    and the role of the instance or pod, as fsspec does.

    :param conf: The stream's own; its login settings for this kind of store take precedence.
    :returns: Empty for a local home, and for a scheme whose credentials Spark has from elsewhere.
    """
    extra, place = connection.extra_dejson, urlsplit(to_hadoop(home))
    login, password = connection.login or "", connection.password or ""
    found: dict[str, str | None] = {}
    match place.scheme:
        case "s3a":
            endpoint = str(extra.get("endpoint_url") or "")
            found = {
                "access.key": login,
                "secret.key": password,
                "endpoint": endpoint,
                "endpoint.region": str(extra.get("region") or ""),
                # Other stores than AWS have no host for each bucket.
                "path.style.access": "true" if endpoint else None,
                "connection.ssl.enabled": "false" if endpoint.startswith("http://") else None,
            }
            found = {f"fs.s3a.bucket.{place.netloc}.{key}": value for key, value in found.items()}
        case "gs" if password:
            found = {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": password,
            }
        case "gs":
            found = {"fs.gs.auth.type": "APPLICATION_DEFAULT"}
        case "abfs" | "abfss" if password:
            account = place.netloc.partition("@")[2] or f"{login}.dfs.core.windows.net"
            found = {
                f"fs.azure.account.auth.type.{account}": "SharedKey",
                f"fs.azure.account.key.{account}": password,
            }
    if any(_LOGS_IN.search(key) for key in conf):
        return {}
    return {f"spark.hadoop.{key}": value for key, value in found.items() if value}


class Access(TypedDict):
    """Arguments of functions that open a URI; both ``None`` for the environment's credentials."""

    storage_options: dict[str, Any] | None
    filesystem: Any


def access(uri: str, conn_id: str | None, *, own_type_only: bool = False, team: str = "") -> Access:
    """
    Return how to reach a URI.

    A connection of type ``stream_home`` works as for a home; one of another type is left to the
    provider that owns the URI's scheme.

    :param own_type_only: Refuse a connection of another type, whose provider would connect; for
        pages.
    :param team: Team whose connections count; for pages.
    :raises SpecError: a ``stream_home`` connection cannot hold credentials for this scheme.
    :raises HomeNotAllowed: the connection is of another type, and only ours may be used.
    """
    if conn_id is None or is_local(uri):
        return Access(storage_options=None, filesystem=None)
    connection = connection_of(conn_id, team)
    if connection.conn_type == StreamHomeHook.conn_type:
        return Access(storage_options=storage_options(uri, connection), filesystem=None)
    if own_type_only:
        raise _another_type(conn_id, connection)
    from airflow.sdk.io.fs import get_fs  # loads every provider

    return Access(storage_options=None, filesystem=get_fs(scheme_of(to_fsspec(uri)), conn_id))


def access_options(uri: str, conn_id: str | None, *, team: str = "") -> dict[str, Any] | None:
    """
    Return how to reach everything beside a URI, as options for fsspec alone.

    For callers that open several locations, some of them local: a file system would be used for all
    of them. A file system of another provider is described by the options it was created with.

    :param team: Team whose connections count; for pages.
    :return: ``None`` for the environment's credentials.
    :raises SpecError: the connection cannot be expressed as options.
    """
    found = access(uri, conn_id, team=team)
    if found["filesystem"] is None:
        return found["storage_options"]
    options: object = getattr(found["filesystem"], "storage_options", None)
    unnamed: object = getattr(found["filesystem"], "storage_args", None)
    if not isinstance(options, Mapping) or unnamed:
        raise SpecError(
            f"The store {uri} cannot be opened again with connection {conn_id!r} of another "
            f"provider. Make it a connection of type {StreamHomeHook.conn_type!r}."
        )
    return dict(options)
