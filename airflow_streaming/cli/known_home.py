"""
The home and the lane of a command, checked before any report about them.

A misspelled or unmounted folder has no streams, and "no streams" must never look healthy to a
program that watches the exit code. A home has the record that its store was probed, which ``init``
writes; a home that lost that record is recognized by its streams.
"""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Final

from airflow_streaming.cli.common import HOME_VARIABLE, OK, add_json
from airflow_streaming.cli.output import show_json
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome, init_home, open_home
from airflow_streaming.home.live_lane import live_lane, stream_of
from airflow_streaming.model.names import Color, color_of, is_path_part, other_lane
from airflow_streaming.model.storage import Store
from airflow_streaming.storage.probe import RECORD, found_at, shown_place

_MOST_FOLDERS: Final = 100
"""How many folders to look into for a stream; a bucket that was named by mistake may hold more."""

_ADVICE: Final = (
    f"Check --home or ${HOME_VARIABLE}, and whether its disk is mounted on this host. Only if the home is "
    "new: 'airflow-streaming init'."
)


def open_known(uri: str | None) -> Home:
    """
    Open the user's home without writing to it.

    :param uri: From ``--home`` or the environment; ``None`` or empty if not set.
    :raises SpecError: it is not set, cannot be a home, or is not a home.
    :raises HomeUnavailable: it cannot be reached.
    """
    if not uri:
        raise SpecError(f"Which home? Give --home, or set {HOME_VARIABLE}.")
    home = open_home(uri)
    if home.store.read(RECORD) is None:
        _check_has_stream(home.store)
    return home


def _check_has_stream(store: Store) -> None:
    names = store.names("")
    folders = islice(filter(is_path_part, names), _MOST_FOLDERS)
    if not any("deployments" in store.names(name) for name in folders):
        raise SpecError(f"{shown_place(store.uri)} is not a home: {found_at(store)}. {_ADVICE}")


def add_init_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``init``."""
    parser.set_defaults(run=init)
    parser.add_argument(
        "uri",
        metavar="HOME",
        nargs="?",
        help=f"the new home: an absolute path or a URL (default: --home or ${HOME_VARIABLE})",
    )
    add_json(parser)


def init(arguments: argparse.Namespace) -> int:
    """
    Make a place a home, and print the streams that it has.

    :raises SpecError: no place was named, or it cannot be a home.
    :raises HomeError: its store is not exclusive, or cannot be reached or written.
    """
    uri = arguments.uri or arguments.home
    if not uri:
        raise SpecError(f"Which home? Give 'init HOME', or set {HOME_VARIABLE}.")
    before = open_home(uri).store.read(RECORD)
    home = init_home(uri)
    streams, place = home.streams(), shown_place(home.store.uri)
    if arguments.json:
        show_json({"home": home.store.uri, "new": before is None, "streams": streams})
    else:
        what = "was initialized" if before is None else "was a home already and stays as it is"
        print(f"{place} {what}. Streams: {', '.join(streams) or 'none'}.")
    return OK


def lane_named(home: Home, name: str, color: str | None = None) -> StreamHome:
    """
    Return the records of the named lane.

    :param name: Of the stream, or of its green lane.
    :param color: Of the lane; ``None`` for the live one.
    :raises SpecError: the name and the color contradict each other, or the name cannot be a folder,
        or names a lane of a lane.
    """
    base = stream_of(name)
    if color is None:
        is_green = color_of(name) is Color.GREEN
        return home.stream(name if is_green else live_lane(home, name))
    lanes = {color_of(lane): lane for lane in (base, other_lane(base))}
    if name != base and name != lanes[Color(color)]:
        raise SpecError(f"{name!r} is not the {color} lane of {base!r}.")
    return home.stream(lanes[Color(color)])
