"""Writes what Java's DataOutputStream does, for schema files that tests make by hand."""

from __future__ import annotations

import json
from typing import Any

NO_USER_KEY = "{    }"


def utf(text: str) -> bytes:
    """Return a text as ``writeUTF`` does: its length and modified UTF-8."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = [units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in _even(units)]
    data = b"".join(
        b"\xc0\x80" if half == "\0" else half.encode("utf-8", "surrogatepass") for half in halves
    )
    return len(data).to_bytes(2, "big") + data


def chunks(text: str, size: int = 21845) -> bytes:
    """Return a long text in chunks of so many characters of Java's."""
    units = text.encode("utf-16-be")
    parts = [units[at : at + 2 * size] for at in range(0, len(units), 2 * size)]
    written = [utf(part.decode("utf-16-be", "surrogatepass")) for part in parts]
    return len(written).to_bytes(4, "big") + b"".join(written)


def struct(*columns: str, **more: Any) -> str:
    """Return Spark's JSON of some columns of texts."""
    fields = [{"name": c, "type": "string", "nullable": True, "metadata": {}} for c in columns]
    return json.dumps({"type": "struct", "fields": fields, **more}, ensure_ascii=False)


def family(name: str, key: str, value: str, user_key: str = NO_USER_KEY) -> bytes:
    """Return one column family of a schema of version 3."""
    ids = [number.to_bytes(2, "big") for number in (0, 1)]
    encoder = '{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}'
    return b"".join(
        [utf(name), ids[0], chunks(key), ids[1], chunks(value), chunks(encoder), chunks(user_key)]
    )


def schema_v3(*families: bytes) -> bytes:
    """Return a schema file of version 3."""
    return utf("v3") + len(families).to_bytes(4, "big") + b"".join(families)


def _even(units: bytes) -> range:
    return range(0, len(units), 2)
