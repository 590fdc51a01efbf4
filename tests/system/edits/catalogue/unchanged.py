"""The control: code that says the same in other words, for every base."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import BASES
from tests.system.edits.catalogue.said import YES
from tests.system.edits.edit import Edit

EDITS: Final = tuple(
    Edit(
        name=f"{base.name}.same",
        base=base,
        theme="nothing",
        changes=(('"""\n\nfrom __future__', ' The same as before."""\n\nfrom __future__'),),
        says=YES,
        why="a comment is no change",
    )
    for base in BASES
)
