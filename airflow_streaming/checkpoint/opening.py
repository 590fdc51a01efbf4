"""From the URI of a backup store to its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.fsspec_blobs import FsspecBlobs
from airflow_streaming.checkpoint.local_blobs import LocalBlobs
from airflow_streaming.core.uris import check_uri, is_local
from airflow_streaming.home.opening import open_filesystem


def open_blobs(
    uri: str, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> Blobs:
    """
    Return the objects under a URI; nothing is read or written yet.

    :param storage_options: Passed to fsspec for a URI that is not a local folder.
    :param filesystem: An fsspec file system to use instead of a new one.
    :raises SpecError: not a full URI, or its file system is not installed.
    :raises HomeUnavailable: the file system cannot be set up, e.g. for want of credentials.
    """
    checked = check_uri(uri, "backup store")
    if filesystem is None and is_local(checked):
        return LocalBlobs(checked)
    opened, root = open_filesystem(checked, "backup store", storage_options, filesystem)
    return FsspecBlobs(opened, root, checked)
