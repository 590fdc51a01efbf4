"""Every edit that is tried."""

from __future__ import annotations

from typing import Final

from tests.system.edits.catalogue import (
    deduplication,
    hidden,
    joins,
    parsing,
    plain,
    queries,
    reading,
    refusals,
    revenue,
    sources,
    totals,
    unchanged,
    user_state,
    windows,
)
from tests.system.edits.edit import Edit

EDITS: Final[tuple[Edit, ...]] = (
    *unchanged.EDITS,
    *plain.EDITS,
    *sources.EDITS,
    *queries.EDITS,
    *revenue.EDITS,
    *totals.EDITS,
    *windows.EDITS,
    *deduplication.EDITS,
    *joins.EDITS,
    *user_state.EDITS,
    *hidden.EDITS,
    *parsing.EDITS,
    *reading.EDITS,
    *refusals.EDITS,
)
