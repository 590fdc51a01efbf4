"""
What lies where a new checkpoint is to be: nothing, part of it, the whole of it, or something else.

``metadata``, with the query's id, is the last file of a checkpoint that we write. So the right id
says that it is whole, and that whatever else is there, e.g. later batches, is its own.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER, is_hidden
from airflow_streaming.core.checkpoint.marker import COPY, RestoreMarker
from airflow_streaming.core.checkpoint.pin_logs import METADATA
from airflow_streaming.core.checkpoint.texts import MAX_LOG_BYTES, json_object
from airflow_streaming.exceptions import CheckpointRefused


def id_in(folders: Folders) -> str:
    """
    Return the id of the query whose checkpoint lies there; empty for none that is whole.

    :raises RecordError: ``metadata`` is none.
    """
    if folders.read(RESTORE_MARKER, MAX_LOG_BYTES) is not None:
        return ""
    return metadata_id(folders)


def metadata_id(folders: Folders) -> str:
    """
    Return the id in ``metadata``, whether a copy is under way or not; empty where there is none.

    :raises RecordError: ``metadata`` is none.
    """
    data = folders.read(METADATA, MAX_LOG_BYTES)
    if data is None:
        return ""
    return str(
        json_object(data.decode(errors="replace").strip(), METADATA, limit=MAX_LOG_BYTES)["id"]
    )


def paths_in(folders: Folders) -> list[str]:
    """Return the files that are there, but for hidden ones."""
    found = folders.tree()
    paths = found.paths() if found else ()
    return [path for path, _ in paths if not is_hidden(path.rpartition("/")[2])]


def check_empty_but_for(folders: Folders, known: Collection[str]) -> None:
    """
    Make sure that nothing lies there but what a dead attempt may have left.

    :raises CheckpointRefused: something else does.
    """
    strange = next((path for path in paths_in(folders) if path not in known), None)
    if strange is not None:
        raise CheckpointRefused(
            f"{folders.uri} is to become a new checkpoint, and {strange} lies there, which is none "
            "of its files. Find out whose it is, and move it away before you ask again."
        )


def is_dead_copy(folders: Folders) -> bool:
    """Tell whether a clone or carry-over to there was cut off, or is under way."""
    data = folders.read(RESTORE_MARKER, MAX_LOG_BYTES)
    return data is not None and RestoreMarker.from_bytes(data).source.startswith(COPY)
