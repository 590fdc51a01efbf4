"""
The flows of a declarative pipeline as queries of a stream, and the folders of their checkpoints.

Spark keeps a checkpoint in ``_checkpoints/<catalog>/<database>/<table>/<flow>/<version>`` of the pipeline's storage. A
full refresh of a table begins the next version and leaves the earlier ones. Spark names the query
``<catalog>.<database>.<flow>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

FLOWS: Final = "_checkpoints"
_LEAST_PARTS: Final = 4
"""``_checkpoints``, a table, a flow, and a version."""


def query_of(folder: str) -> str:
    """Return the query whose checkpoint a folder of a stream's checkpoints is."""
    parts = folder.split("/")
    if parts[0] != FLOWS or len(parts) < _LEAST_PARTS or not parts[-1].isdecimal():
        return folder
    *database, _table, flow, _version = parts[1:]
    return ".".join((*database, flow))


def newest_versions(folders: Iterable[str]) -> dict[str, str]:
    """Return the newest checkpoint of each flow, by the flow's folder."""
    newest: dict[str, int] = {}
    for path in folders:
        flow, _, version = path.rpartition("/")
        if version.isdecimal() and flow.startswith(f"{FLOWS}/"):
            newest[flow] = max(newest.get(flow, 0), int(version))
    return {flow: f"{flow}/{version}" for flow, version in sorted(newest.items())}
