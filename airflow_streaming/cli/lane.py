"""Which lane of a stream a person means: the live one, unless it is named by its colour."""

from __future__ import annotations

import argparse

from airflow_streaming.core.lanes import Colour, colour_of, other_lane
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.lanes import live_lane, stream_of


def add_colour(parser: argparse.ArgumentParser) -> None:
    """Let a person name one lane of the stream."""
    parser.add_argument(
        "--colour",
        choices=[colour.value for colour in Colour],
        help="the stream's blue or its green lane, live or not (default: the one that is live)",
    )


def lane_named(home: Home, name: str, colour: str | None = None) -> StreamHome:
    """
    Return the records of the lane that is meant.

    :param name: Of the stream, or of its green lane.
    :param colour: Of the lane; ``None`` for the live one.
    :raises SpecError: the name and the colour do not go together, or the name cannot be a folder, or is
        that of a lane of a lane.
    """
    base = stream_of(name)
    if colour is None:
        is_green = colour_of(name) is Colour.GREEN
        return home.stream(name if is_green else live_lane(home, name))
    lanes = {colour_of(lane): lane for lane in (base, other_lane(base))}
    if name != base and name != lanes[Colour(colour)]:
        raise SpecError(f"{name!r} is not the {colour} lane of {base!r}.")
    return home.stream(lanes[Colour(colour)])
