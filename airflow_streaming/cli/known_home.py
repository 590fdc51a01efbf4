"""
The home and the lane that a command is given, looked at before anything is reported of them.

A misspelled or unmounted folder has no streams, and "no streams" must never look healthy to what
watches the exit code. What tells a home from a folder is the record that its store was probed, which
is written before the first stream is deployed there; a home that lost that record is recognized by
its streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from airflow_streaming.cli.common import HOME_VARIABLE
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome, open_home
from airflow_streaming.home.live_lane import live_lane, stream_of
from airflow_streaming.model.names import Color, color_of, is_path_part, other_lane
from airflow_streaming.model.storage import Store
from airflow_streaming.model.uris import is_local, local_path
from airflow_streaming.storage.probe import RECORD

_MOST_FOLDERS: Final = 100
"""How many folders to look into for a stream; a bucket that was named by mistake may hold more."""


_MOST_NAMED: Final = 3


_ADVICE: Final = (
    f"Check --home or ${HOME_VARIABLE}, and whether its disk is mounted; the first deployment of a "
    "stream creates the home."
)


def open_known(uri: str | None) -> Home:
    """
    Open the home that the user named; nothing is written.

    :param uri: As given by ``--home`` or the environment; ``None`` or empty when it was not.
    :raises SpecError: none was named, it cannot be a home, or there is no home.
    :raises HomeUnavailable: it cannot be reached.
    """
    if not uri:
        raise SpecError(f"Which home? Give --home, or set {HOME_VARIABLE}.")
    home = open_home(uri, probe=False)
    if home.store.read(RECORD) is None:
        _check_has_stream(home.store)
    return home


def _check_has_stream(store: Store) -> None:
    names = store.names("")
    folders = islice(filter(is_path_part, names), _MOST_FOLDERS)
    if not any("deployments" in store.names(name) for name in folders):
        raise SpecError(
            f"There is no home at {store.uri}: {_what_is_there(store, names)}. {_ADVICE}"
        )


def _what_is_there(store: Store, names: Sequence[str]) -> str:
    if names:
        more = ", ..." if len(names) > _MOST_NAMED else ""
        return f"what is there does not belong to a home ({', '.join(names[:_MOST_NAMED])}{more})"
    if not is_local(store.uri):
        return "nothing is stored there"
    path = Path(local_path(store.uri))
    if path.is_dir():
        return "the folder is empty"
    return "that is a file" if path.exists() else "there is no such folder"


def lane_named(home: Home, name: str, color: str | None = None) -> StreamHome:
    """
    Return the records of the lane that is meant.

    :param name: Of the stream, or of its green lane.
    :param color: Of the lane; ``None`` for the live one.
    :raises SpecError: the name and the color do not go together, or the name cannot be a folder, or is
        that of a lane of a lane.
    """
    base = stream_of(name)
    if color is None:
        is_green = color_of(name) is Color.GREEN
        return home.stream(name if is_green else live_lane(home, name))
    lanes = {color_of(lane): lane for lane in (base, other_lane(base))}
    if name != base and name != lanes[Color(color)]:
        raise SpecError(f"{name!r} is not the {color} lane of {base!r}.")
    return home.stream(lanes[Color(color)])
