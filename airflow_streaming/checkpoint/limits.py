"""What a walk refuses to go into: too many files, too deep, and names that no Spark gives."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.checkpoint.listing import MAX_DEPTH
from airflow_streaming.exceptions import CheckpointError

MAX_FILES: Final = 1_000_000
"""A thousand partitions of four stores with a hundred versions each are 400,000 files."""


def check_count(files: int, where: str) -> None:
    """
    Refuse a tree with too many files.

    :raises CheckpointError: more than ``MAX_FILES``.
    """
    if files > MAX_FILES:
        raise CheckpointError(
            f"{where} has more than {MAX_FILES} files, more than a checkpoint can have. Give the "
            "checkpoint of one query."
        )


def check_depth(path: str, where: str) -> None:
    """
    Refuse a folder that lies too deep.

    :raises CheckpointError: more than ``MAX_DEPTH`` folders down.
    """
    if path.count("/") >= MAX_DEPTH:
        raise CheckpointError(
            f"{where} has folders more than {MAX_DEPTH} levels deep ({shown(path):.200}); Spark "
            "makes none below seven. Give the checkpoint of one query."
        )


def is_usable(name: str) -> bool:
    """Tell whether a name can be part of a path: printable, and no way out of the folder."""
    return name.isprintable() and name not in {"", ".", ".."} and "/" not in name


def shown(path: str) -> str:
    """Return a path for a message: what cannot be printed is escaped."""
    return path if path.isprintable() else path.encode("unicode_escape").decode("ascii")
