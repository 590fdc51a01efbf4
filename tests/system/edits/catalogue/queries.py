"""Several queries of one application."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import DESK
from tests.system.edits.catalogue.said import NO, YES, YES_BUT, edit

_SALES: Final = 'start(events.select("id", "amount"), "sales", args)'
_SHOPS: Final = 'start(events.groupBy("shop").count(), "shops", args, "update")'

EDITS: Final = (
    edit(
        DESK,
        "query_removed",
        "query",
        YES_BUT,
        "nobody goes on from its checkpoint",
        (f"    {_SHOPS}\n", ""),
    ),
    edit(
        DESK,
        "query_added",
        "query",
        YES_BUT,
        "a new query reads everything from the start",
        (_SALES, f'{_SALES}\n    start(events.select("user"), "users", args)'),
    ),
    edit(
        DESK,
        "query_renamed",
        "query",
        NO,
        "under its new name it has no checkpoint",
        (_SHOPS, _SHOPS.replace('"shops"', '"counted"')),
    ),
    edit(
        DESK,
        "queries_in_other_order",
        "query",
        YES,
        "each has its own checkpoint",
        (f"{_SALES}\n    {_SHOPS}", f"{_SHOPS}\n    {_SALES}"),
    ),
    edit(
        DESK,
        "checkpoints_swapped",
        "query",
        NO,
        "each goes on from the other's checkpoint",
        (_SALES, _SALES.replace('"sales"', '"shops"')),
        (_SHOPS, _SHOPS.replace('"shops"', '"sales"')),
    ),
    edit(
        DESK,
        "one_of_two_changed",
        "query",
        NO,
        "the other one being the same does not help",
        ('groupBy("shop")', 'groupBy("user")'),
    ),
)
