"""
Folders → Listing: one pass over a whole checkpoint, or over one query's in a folder of several.

The walk follows no link, opens no file and waits for nobody: what is neither file nor folder, and
what has a name that Spark would never give, is noted as strange and left alone. A live checkpoint
changes underneath, so a folder that vanishes on the way is no error.
"""

from __future__ import annotations

import os

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.listing import Listing
from airflow_streaming.core.uris import is_local, local_path
from airflow_streaming.exceptions import CheckpointError


def walk(folders: Folders) -> Listing:
    """
    Return everything that lies under the root; ``folders.below(name)`` walks a folder of it.

    :raises CheckpointError: there is no such folder, or it has more files than a checkpoint can
        have, or deeper folders.
    :raises HomeUnavailable: the store cannot be reached, which says nothing of the checkpoint.
    """
    listing = folders.tree()
    if listing is None:
        raise no_folder(folders.uri)
    return listing


def no_folder(uri: str) -> CheckpointError:
    """Return the error of a place where a checkpoint was looked for and no folder is."""
    if is_local(uri) and os.path.lexists(local_path(uri)):
        return CheckpointError(f"{uri} is no folder. Give the folder of a checkpoint.")
    return CheckpointError(
        f"There is no folder {uri}. Check its spelling; on an object store a folder without files "
        "does not exist."
    )
