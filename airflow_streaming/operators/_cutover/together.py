"""Streams that switch together, and the pointers of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.exceptions import SpecError


def check_together(streams: Sequence[StreamSpec]) -> None:
    """
    Do nothing for streams that can switch together.

    :raises SpecError: two have one name, or they are in different homes.
    """
    names = [one.name for one in streams]
    if len(set(names)) != len(names):
        raise SpecError(f"Streams that switch together need different names: {', '.join(names)}.")
    if len({one.home for one in streams}) > 1:
        raise SpecError(
            "Streams that switch together need one home, because one record there moves them all."
        )


def by_name(
    pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]], leader: str
) -> dict[str, Pointer]:
    """
    Return pointers by their name in the terms, which is ``STREAM/NAME`` but for the leader's.

    :param pointers: Of the stream that leads, or of several by the stream's name.
    :raises SpecError: two have one name.
    """
    told = pointers if isinstance(pointers, Mapping) else {leader: pointers}
    named = [
        (pointer.name if stream == leader else f"{stream}/{pointer.name}", pointer)
        for stream, some in told.items()
        for pointer in some
    ]
    found = dict(named)
    if len(found) < len(named):
        raise SpecError(
            f"Pointers need names of their own: {', '.join(name for name, _ in named)}."
        )
    return found
