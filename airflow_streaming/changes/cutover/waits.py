"""The event that ends the present wait of an open cutover, by its state. Pure: the caller reads the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_streaming.model.arguments.terms import SoakTerms
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.records.cutover import CutoverTerms
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState, CutoverTransition

_WAITS: Final = {
    CutoverState.PLANNED: "its task, which starts green",
    CutoverState.STARTING: "the start of green's driver",
    CutoverState.CATCHING_UP: "green to read what blue had read when green started, and to leave no more unread than blue",
    CutoverState.SHADOWING: "green to be well for a while",
    CutoverState.COMPARING: "the comparisons and checks",
    CutoverState.READY: "the decision of a user: promote or abort",
    CutoverState.HELD: "the decision of a user: look again, promote or abort",
    CutoverState.WARMING: "green's next driver to reach the barrier",
    CutoverState.DRAINING: "blue to stop at a batch boundary",
    CutoverState.SWITCHING: "the pointers of consumers to move",
    CutoverState.LIVE: "green's first batch since it became live",
    CutoverState.SOAKING: "the end of the soak",
    CutoverState.ABORTING: "green to stop",
    CutoverState.ROLLING_BACK: "blue to be live again, and green to stop",
    CutoverState.FINALIZING: "blue to stop",
}


def waits_for(history: Sequence[CutoverTransition], terms: CutoverTerms | None) -> str:
    """Return the awaited event of an open cutover, as the end of a sentence that begins with "Waits for"."""
    state = CUTOVER.state_of(history)
    if terms is not None and state is CutoverState.SHADOWING:
        ready = terms.ready
        return (
            f"green to be well for {duration_text(ready.well_for)} without a break, and for "
            f"{ready.batches} batches of every query"
        )
    if terms is not None and state is CutoverState.READY and terms.promotes_by_itself:
        return "its task, which makes green live"
    if terms is not None and state is CutoverState.SOAKING:
        return _soak(terms.soak, terms.finalizes_by_itself)
    return _WAITS.get(state, "its task, which closes the change")


def _soak(soak: SoakTerms, ends_by_itself: bool) -> str:
    then = "" if ends_by_itself else ", then for the decision of a user: keep or roll back"
    return f"the soak: {soak}, at most {duration_text(soak.at_most)}{then}"
