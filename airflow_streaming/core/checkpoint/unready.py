"""Unready: what is not whole in one listing of a live checkpoint, and may be in the next one."""

from __future__ import annotations

from typing import NamedTuple


class Unready(NamedTuple):
    """
    A file that is missing from a listing or not what it should be.

    When another walk finds the very same, it is damage, unless the file was seen to change.

    :param path: The file or folder, relative to the checkpoint.
    :param why: A sentence.
    :param is_moving: The file was purged or written while it was copied.
    """

    path: str
    why: str
    is_moving: bool = False
