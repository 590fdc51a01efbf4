"""Where the sizes of a run come from: asked for, or taken over from what the figures advise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.upgrade.advised_size import EXECUTORS, SizeSource
from airflow_streaming.exceptions import SpecError

if TYPE_CHECKING:
    from airflow_streaming.home.home import StreamHome


def asked_sizes(size: Mapping[str, Any]) -> list[SizeSource]:
    """Return the sizes that were asked for by their values."""
    return [
        SizeSource(size=name, value=str(value), source="As it was asked for.")
        for name, value in size.items()
        if value not in (None, "")
    ]


def take_advice(home: StreamHome) -> SizeSource:
    """
    Return the number of executors that is advised, or was when the open upgrade was begun.

    :raises SpecError: no number follows from the stream's figures.
    """
    from airflow_streaming.upgrade.sizing import stream_executors  # not at dag parse

    change = home.open_upgrade()
    begun = "" if change is None else home.terms(change).proposed.conf.get(EXECUTORS, "")
    if change is not None and begun:
        source = f"As change {change.number} has it, which is open."
        return SizeSource(size="executors", value=begun, source=source)
    try:
        return stream_executors(home)
    except SpecError as err:
        raise SpecError(
            f"Stream {home.name!r} is left as it is. {err} Give the number of executors, or leave "
            "out that it is advised."
        ) from err
