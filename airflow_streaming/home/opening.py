"""From the URI of a home to the store that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.core.uris import check_uri, is_local, scheme_of, to_fsspec
from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.files.local import LocalStore
from airflow_streaming.files.store import Store
from airflow_streaming.home.fsspec_store import FsspecStore

_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "abfs", "abfss": "abfs", "hdfs": "hdfs"}
_MOST_TOLD: Final = 300
"""Characters of a client's error in a sentence of ours."""


def open_store(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Store:
    """
    Return the store for a home.

    :param storage_options: Passed to fsspec for a home that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :raises SpecError: the URI cannot be a home, or its file system is not installed.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for want of credentials.
    """
    checked = check_uri(uri, "home")
    if is_local(checked):
        return LocalStore(checked)
    opened, root = open_filesystem(checked, "home", storage_options, filesystem)
    return FsspecStore(opened, root, checked)


def open_filesystem(
    uri: str,
    what: str,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> tuple[Any, str]:
    """
    Return the file system of a checked URI, and the folder as that file system spells it.

    :param what: What the folder is, for messages, e.g. ``home``.
    :param filesystem: The file system, when somebody has made one already.
    :raises SpecError: its file system is not installed.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for want of credentials.
    """
    if filesystem is not None:
        return filesystem, filesystem._strip_protocol(to_fsspec(uri))
    from fsspec.core import url_to_fs

    # A cached instance may belong to somebody who lists with a cache; a stale listing would hide
    # the newest epoch.
    settings = {**(storage_options or {}), "use_listings_cache": False, "skip_instance_cache": True}
    try:
        opened, root = url_to_fs(to_fsspec(uri), **settings)
    except (ImportError, ValueError) as err:
        scheme = scheme_of(to_fsspec(uri))
        extra = f"pip install 'airflow-streaming[{_EXTRAS[scheme]}]'" if scheme in _EXTRAS else ""
        raise SpecError(
            f"The {what} {uri!r} cannot be opened: {err}. "
            f"{extra or 'Install the fsspec file system for it'}, or give another URI."
        ) from err
    except Exception as err:
        # Storage clients share no base class for "no credentials" or "no such host".
        raise HomeUnavailable(
            f"The {what} {uri} cannot be opened: {_first_words(err)} ({type(err).__name__}). Check "
            "the connection and the credentials of its store."
        ) from err
    return opened, root


def _first_words(err: Exception) -> str:
    # A client may list every place where it looked for its library.
    line = next(iter(str(err).splitlines()), "")
    return line if len(line) <= _MOST_TOLD else f"{line[: _MOST_TOLD - 3]}..."
