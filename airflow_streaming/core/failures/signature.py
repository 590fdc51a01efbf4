"""
When are two failures the same? A digest that forgets what differs from one attempt to the next.

Spark puts run ids, task numbers, host names, addresses, sizes and times into its messages, and the
checkpoint's path into many. They are replaced by a mark before the rest is hashed. Words stay: a
``KeyError: 'price'`` is another failure than a ``KeyError: 'amount'``.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from airflow_streaming.core.failures.kind import FailureKind
from airflow_streaming.core.failures.text import core_of

_MAX_COMPARED: Final = 2_000
"""Characters of the core that are compared; what makes a failure stands at its beginning."""

_LENGTH: Final = 16
"""Hex digits of a signature."""

_TASK: Final = re.compile(r"\([^()\s]{1,255} executor [^()\s]{1,100}\)")
_URI: Final = re.compile(r"\b[a-z][a-z0-9+.-]{0,20}:/[^\s'\",;)\]]*", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w/])/[^\s'\",;)\]]*")
_ADDRESS: Final = re.compile(r"\b[\w.-]{1,255}(?:/[\d.:a-fA-F]{2,45})?:\d{1,5}\b")
_HEX: Final = re.compile(r"\b(?=[a-f-]{0,64}\d)[0-9a-f][0-9a-f-]{5,64}[0-9a-f]\b", re.IGNORECASE)
_JAVA_OBJECT: Final = re.compile(r"@[0-9a-f]{1,16}\b")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACE: Final = re.compile(r"\s+")


def signature(
    *,
    kind: FailureKind,
    query: str | None,
    exception_class: str | None,
    condition: str | None,
    text: str,
) -> str:
    """
    Return a short digest that is equal for the same failure of the same query.

    :param text: The message, as a whole or its one line.
    """
    parts = (kind.value, query or "", exception_class or "", condition or "", _likeness(text))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_LENGTH]


def _likeness(text: str) -> str:
    """Return the core of a message without what differs between attempts."""
    core = core_of(text)[:_MAX_COMPARED]
    for pattern in (_TASK, _URI, _PATH, _ADDRESS, _HEX, _JAVA_OBJECT, _NUMBER):
        core = pattern.sub("#", core)
    return _SPACE.sub(" ", core).strip()
