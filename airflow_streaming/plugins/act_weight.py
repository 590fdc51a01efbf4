"""Acts of the page that ask for the stream's name, and acts with a red button."""

from __future__ import annotations

from typing import Final

GENTLE: Final = frozenset({"start", "cutover.look-again"})
"""Acts that lose no data and replay no batch beyond a usual restart."""
PLANNED: Final = frozenset({"upgrade.keep", "cutover.promote", "cutover.keep"})
"""Acts that end a change as planned."""


def asks_name(act: str) -> bool:
    """Tell whether a user types the stream's name, because no other act undoes this act."""
    return act not in GENTLE


def is_red(act: str) -> bool:
    """Tell whether an act stops, undoes or gives up something."""
    return act not in GENTLE | PLANNED
