"""The name under which the backups of a checkpoint are kept that is no stream's of ours."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from airflow_streaming.core.uris import to_fsspec

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9-]+")
_MOST_OF_A_NAME: Final = 60


def name_for(checkpoint: str) -> str:
    """
    Return the name under which the backups of somebody else's checkpoint are kept.

    Its last two folders, to be recognised, and a part of the digest, so that no two are one.
    """
    place = to_fsspec(checkpoint).rstrip("/")
    end = "/".join(place.split("/")[-2:])
    shown = _NOT_IN_NAMES.sub("-", end)[-_MOST_OF_A_NAME:].strip("-") or "checkpoint"
    return f"{shown}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
