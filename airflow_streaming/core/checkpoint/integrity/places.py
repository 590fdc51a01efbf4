"""What lies where in a checkpoint, by name: what Spark puts there, and what it never does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from airflow_streaming.core.checkpoint.finding import Finding, FindingCode
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER, Listing, is_hidden

_MOST_NAMED: Final = 10
"""Unknown files that are named one by one; a wrong folder may have a million."""

_STATE_NAMES: Final = re.compile(
    r"[0-9]{1,18}(_[0-9A-Za-z-]{1,64})?\.(delta|snapshot|changelog|zip)(\.crc)?", re.ASCII
)
_BATCH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_ANY: Final = re.compile(r".*", re.DOTALL)
_STORE: Final = r"state/[0-9]{1,9}/[0-9]{1,9}(/(?!SSTs\b|logs\b)[^_/][^/]*)?"

_PLACES: Final = (
    (re.compile(r""), re.compile(rf"metadata|{re.escape(RESTORE_MARKER)}")),
    (re.compile(r"offsets|commits"), _BATCH),
    # A source keeps there what it likes.
    (re.compile(r"sources/.+"), _ANY),
    (re.compile(r"state/[0-9]{1,9}/(_metadata|_stateSchema)(/.+)?"), _ANY),
    (re.compile(_STORE), _STATE_NAMES),
    (re.compile(rf"{_STORE}/_metadata"), re.compile(r"schema(\.crc)?")),
    (re.compile(rf"{_STORE}/SSTs"), re.compile(r".+\.(sst|log)(\.crc)?")),
    (re.compile(rf"{_STORE}/logs"), re.compile(r".+\.log(\.crc)?")),
)
"""Folders of a checkpoint, each with the names that files in it have."""


def is_checkpoint(listing: Listing) -> bool:
    """Tell whether there is anything that makes a folder the checkpoint of a query."""
    return listing.stat("metadata") is not None or not listing.folders.keys().isdisjoint(
        {"offsets", "commits"}
    )


def place_problems(listing: Listing) -> Iterator[Finding]:
    """Return what must not lie in a checkpoint."""
    if listing.stat(RESTORE_MARKER) is not None:
        yield Finding(
            code=FindingCode.UNFINISHED_RESTORE,
            path=RESTORE_MARKER,
            message="A restore into this checkpoint has not finished, so files may be missing. "
            "Spark does not know that and might start on a part of them. Run the restore again, or "
            "give up the folder; do not start the query on it.",
        )
    for path, what in sorted(listing.strange.items()):
        yield Finding(
            code=FindingCode.STRANGE_FILE,
            path=path,
            message=f"{path} is no file and no folder but this: {what}. It was not opened or "
            "followed, and nothing behind it was looked at. Spark never makes one, and no backup "
            "takes it. Find out who put it there; put real files in its place if Spark needs them.",
        )


def place_remarks(listing: Listing) -> Iterator[Finding]:
    """Return files that no Spark from 2.1 to 4.3 writes there."""
    unknown = _unknown(listing)
    for path in islice(unknown, _MOST_NAMED):
        yield Finding(
            code=FindingCode.UNKNOWN_FILE,
            path=path,
            message=f"{path} is no file that Spark 2.1 to 4.3 writes there. Spark passes over it. "
            "Find out whose it is; other programs should not write into a checkpoint.",
        )
    more = sum(1 for _ in unknown)
    if more:
        yield Finding(
            code=FindingCode.UNKNOWN_FILE,
            path="",
            message=f"{more} more files are none that Spark writes. Check that this is the folder "
            "of a checkpoint only.",
        )


def _unknown(listing: Listing) -> Iterator[str]:
    for folder in sorted(listing.folders):
        known = next((names for place, names in _PLACES if place.fullmatch(folder)), None)
        prefix = f"{folder}/" if folder else ""
        for name in listing.files(folder):
            if not is_hidden(name) and (known is None or not known.fullmatch(name)):
                yield prefix + name
