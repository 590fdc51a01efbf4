"""Laying pointers: what consumers follow leads to what is live before there is any green."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome


def lay(pointers: Mapping[str, Pointer], base: StreamHome) -> list[str]:
    """
    Lead consumers to what is live, by pointers that are new, or were taken away.

    So there is something to follow, and to go back to, before the first switch; and a pointer that
    cannot be moved is found before anything is begun. One that shows it already stays as it is.

    :param pointers: By name in the terms of the cutover.
    :param base: Records of the stream that leads.
    :returns: Names of the pointers that were led to it; it does no harm to do so again.
    :raises PointerRefused: what is there was not written by us, or leads to another stream.
    :raises PointerFailed: it could not be moved now; try again.
    """
    home, laid = Home(base.store), []
    for name, pointer in pointers.items():
        stream = name.rpartition("/")[0] or base.name
        now, records = live(home, stream), home.stream(stream).live_records()
        # Of a switch that was given up there is a later record, and the pointer tells of it.
        if records and records[-1].number != now.number:
            continue
        pointer.move(now, now)
        laid.append(name)
    return laid
