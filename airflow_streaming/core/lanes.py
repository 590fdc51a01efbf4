"""
Lanes: the two places of one stream in a home, so that two deployments can run side by side.

A lane is a whole stream in the home: deployments, epochs, checkpoints, output and switches of its
own. What runs side by side shares no folder, so whatever is promised for a stream, one writer above
all, holds for each lane by itself. The first lane has the stream's name and the colour blue; the
other one, which exists from the first cutover on, has ``.green`` behind the name. Which of the two
consumers read, and keep-alive tasks keep alive, is what the stream's live pointer says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from airflow_streaming.exceptions import SpecError

GREEN_SUFFIX: Final = ".green"


class Colour(StrEnum):
    """What a lane is called by people."""

    BLUE = "blue"
    GREEN = "green"


def base_of(lane: str) -> str:
    """Return the stream that a lane belongs to."""
    return lane.removesuffix(GREEN_SUFFIX)


def colour_of(lane: str) -> Colour:
    """Return the colour of a lane."""
    return Colour.GREEN if lane.endswith(GREEN_SUFFIX) else Colour.BLUE


def other_lane(lane: str) -> str:
    """Return the lane beside this one, whichever of the two it is."""
    return base_of(lane) if colour_of(lane) is Colour.GREEN else f"{lane}{GREEN_SUFFIX}"


def check_is_stream(name: str) -> str:
    """
    Return a name that a dag may give its stream.

    :raises SpecError: it is kept for the other lane of a stream.
    """
    if colour_of(name) is Colour.GREEN:
        raise SpecError(
            f"Stream name {name!r} ends with {GREEN_SUFFIX!r}, which is kept for the other lane of "
            f"stream {base_of(name)!r}. Choose another name; to act on a stream whose green lane is "
            "live, name the stream itself."
        )
    return name
