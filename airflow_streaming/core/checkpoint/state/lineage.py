"""
Lineage: the ancestors that a changelog of state checkpoint format 2 names.

Such a changelog begins with its own version, ``v3`` or ``v4``, and a JSON list of the versions
before it with their ids, back to the snapshot from which the task had started. Both are texts with
a length of 16 bits, inside the compression.
"""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_streaming.core.checkpoint.state.lz4 import MAGIC, decompress
from airflow_streaming.core.checkpoint.texts import count, items, json_value, mapping, string
from airflow_streaming.exceptions import RecordError

_WITH_LINEAGE: Final = (b"v3", b"v4")
_LONGEST: Final = 2 * (2 + 0xFFFF)
"""Bytes that two such texts can have."""

_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)


def lineage(data: bytes) -> tuple[tuple[int, str], ...]:
    """
    Return version and unique id of each ancestor that a changelog names, oldest first.

    :raises RecordError: it is compressed by another codec than LZ4, damaged, or has no lineage.
    """
    if not data.startswith(MAGIC):
        raise RecordError("The changelog is not compressed with LZ4.")
    content = decompress(data, _LONGEST)
    form, rest = _text(content)
    if form not in _WITH_LINEAGE:
        raise RecordError("The changelog does not tell its ancestors.")
    listed, _ = _text(rest)
    ancestors = items(_parsed(listed), "lineage")
    return tuple(sorted(_ancestor(mapping(ancestor, "lineage")) for ancestor in ancestors))


def _text(content: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(content[:2], "big")
    if len(content) < 2 + size:
        raise RecordError("The changelog ends within its head.")
    return content[2 : 2 + size], content[2 + size :]


def _parsed(listed: bytes) -> Any:
    try:
        return json_value(listed.decode("utf-8"), "lineage of the changelog")
    except UnicodeDecodeError as err:
        raise RecordError("The lineage of the changelog is not text.") from err


def _ancestor(ancestor: dict[str, Any]) -> tuple[int, str]:
    unique_id = string(ancestor.get("checkpointUniqueId"), "checkpointUniqueId")
    if not _ID.fullmatch(unique_id):
        raise RecordError("The lineage of the changelog names an id that is none.")
    return count(ancestor.get("version"), "version"), unique_id
