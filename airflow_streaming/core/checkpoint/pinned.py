"""What is pinned, as a walk would find it: the copy before it is written."""

from __future__ import annotations

from itertools import accumulate

from airflow_streaming.core.checkpoint.listing import FileStat, Listing
from airflow_streaming.core.checkpoint.pin import Pin


def pinned_listing(pin: Pin, listing: Listing) -> Listing:
    """Return the listing of what is pinned: the copy as a walk of it will find it."""
    folders: dict[str, dict[str, FileStat]] = {"": {}}
    for path in pin.files:
        folder, _, name = path.rpartition("/")
        for parent in accumulate(folder.split("/"), "{}/{}".format):
            folders.setdefault(parent, {})
        stat = listing.stat(path)
        if stat is not None:
            folders[folder][name] = stat
    return Listing(folders)


def with_checksums(pinned: Listing, live: Listing) -> Listing:
    """
    Return the listing with the checksums that Hadoop keeps beside the pinned files.

    They are no part of a copy, which is checked against them all the same: damage that Spark would
    notice in the original must not pass unnoticed into a backup.
    """
    folders = {
        folder: {
            **files,
            **{
                hidden: stat
                for hidden in (f".{name}.crc" for name in files)
                if (stat := live.files(folder).get(hidden)) is not None
            },
        }
        for folder, files in pinned.folders.items()
    }
    return Listing(folders)


def lost_operators(pinned: Listing, live: Listing) -> list[str]:
    """Return the operators that have a folder, and nothing in it that could be pinned."""
    return sorted(
        set(filter(str.isdecimal, live.subfolders("state"))) - set(pinned.subfolders("state"))
    )
