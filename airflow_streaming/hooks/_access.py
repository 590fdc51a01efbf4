"""How a store is reached: nothing, options or a file system for fsspec, from a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from airflow.sdk import BaseHook

from airflow_streaming.core.uris import is_local, scheme_of, to_fsspec
from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks.home import StreamHomeHook, storage_options


class Access(TypedDict):
    """What everything that opens a URI takes; both ``None`` for the environment's credentials."""

    storage_options: dict[str, Any] | None
    filesystem: Any


def access(uri: str, conn_id: str | None) -> Access:
    """
    Return how to reach a URI.

    A connection of type ``stream_home`` is understood as for a home; one of another type is left
    to the provider that owns the URI's scheme.

    :raises SpecError: a ``stream_home`` connection cannot hold credentials for this scheme.
    """
    if conn_id is None or is_local(uri):
        return Access(storage_options=None, filesystem=None)
    connection = BaseHook.get_connection(conn_id)
    if connection.conn_type == StreamHomeHook.conn_type:
        return Access(storage_options=storage_options(uri, connection), filesystem=None)
    from airflow.sdk.io.fs import get_fs  # loads every provider

    return Access(storage_options=None, filesystem=get_fs(scheme_of(to_fsspec(uri)), conn_id))


def access_options(uri: str, conn_id: str | None) -> dict[str, Any] | None:
    """
    Return how to reach everything beside a URI, as options for fsspec alone.

    For whoever opens several places, of which some are local: a file system would be taken for all
    of them. One that another provider has made is told by what it was made of.

    :return: ``None`` for the environment's credentials.
    :raises SpecError: the connection cannot be told in options.
    """
    found = access(uri, conn_id)
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
