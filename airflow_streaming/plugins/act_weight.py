"""How much weight an act of the page has: whether it asks for the stream's name, and whether it is red."""

from __future__ import annotations

from typing import Final

GENTLE: Final = frozenset({"start", "cutover.look-again"})
"""Acts that lose and replay nothing that would not be replayed anyway."""
PLANNED: Final = frozenset({"upgrade.keep", "cutover.promote", "cutover.keep"})
"""Acts that end a change as it was planned."""


def asks_name(act: str) -> bool:
    """Tell whether a user types the stream's name, because nothing takes the act back."""
    return act not in GENTLE


def is_red(act: str) -> bool:
    """Tell whether an act stops, undoes or gives up something."""
    return act not in GENTLE | PLANNED
