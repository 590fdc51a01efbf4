"""
Folders → Listing: one pass over a whole checkpoint, or over one query's in a folder of several.

The walk follows no link, opens no file and waits for nobody: what is neither file nor folder, and
what has a name that Spark would never give, is noted as strange and left alone. A live checkpoint
changes underneath, so a folder that vanishes on the way is no error.
"""

from __future__ import annotations

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.listing import Listing
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
        raise CheckpointError(
            f"There is no folder {folders.uri}. Check its spelling; on an object store a folder "
            "without files does not exist."
        )
    return listing
