"""What is open already when a cutover is asked for, or stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.change import Change
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import SwitchWay
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.home.home import StreamHome
from airflow_streaming.operators._cutover.run import found_cutover, led_by, words

if TYPE_CHECKING:
    from airflow_streaming.cutover.pairs import Candidate
    from airflow_streaming.operators._cutover.lanes import DagLanes

DECIDED: Final = frozenset(
    {CutoverState.ABORTING, CutoverState.ROLLING_BACK, CutoverState.FINALISING}
)
"""States in which a cutover only has to be brought to its end."""


def decided_cutover(home: StreamHome) -> Change | None:
    """Return the open cutover that only has to be brought to its end; ``None`` without one."""
    change = home.unfinished_change()
    if change is None or not home.leads(change):
        return None
    return change if state_of(home.steps(change.number)) in DECIDED else None


def check_is_new(home: StreamHome, key: str) -> None:
    """
    Do nothing for a run that has not cut the stream over already.

    :param key: Names the run's wish.
    :raises AirflowFailException: it was cleared after its cutover had ended, and would only tell
        the end.
    """
    change = found_cutover(home, {"key": key})
    end = None if change is None else home.change_end(change.number)
    if end is not None:
        raise AirflowFailException(
            f"This run has cut stream {home.name!r} over already: change {end.number} has ended "
            f"({words(end.outcome)}): {end.reason} Start a new run."
        )


def open_cutover(lanes: DagLanes, candidates: Sequence[Candidate], way: SwitchWay) -> Change | None:
    """
    Return the cutover that is open and is the very one that is asked for; ``None`` without any.

    :raises AirflowFailException: something else is open in one of the lanes.
    """
    for candidate in candidates:
        _check_nothing_else(candidate, lanes)
    home = lanes.home
    change = home.unfinished_change()
    if change is None:
        return None
    if _is_this(change, home, candidates, way):
        return change
    raise AirflowFailException(
        f"Change {change.number} of stream {home.name!r} is another cutover, and it is open "
        f"({words(state_of(home.steps(change.number)))}): {change.reason} Only one at a time. "
        "Finish it first; 'airflow-streaming cutover status' says how far it is."
    )


def what_is_given_up(home: StreamHome) -> str:
    """Return what a new cutover takes away, as Markdown: an earlier blue that is still kept."""
    change = next(led_by(home), None)
    if change is None or state_of(home.steps(change.number)) is not CutoverState.FINALISED:
        return ""
    terms = home.cutover_terms(change)
    kept = ", ".join(f"{pair.blue} (deployment {pair.blue_deployment})" for pair in terms.pairs)
    return (
        f"**The blue of cutover {change.number} is still kept: {kept}.** Its lane is needed, so its "
        "final backup is taken first, and there is no way back to it any more."
    )


def _check_nothing_else(candidate: Candidate, lanes: DagLanes) -> None:
    for lane in (candidate.blue.name, candidate.green):
        home = lanes.hook(lane).lane(lane).home
        change = home.unfinished_change()
        if change is None or _is_ours(change, lanes.home):
            continue
        raise AirflowFailException(
            f"Change {change.number} ({change.what}) of {lane!r} is open: {change.reason} Only one "
            "at a time. Finish it first; 'airflow-streaming status' says how far it is."
        )


def _is_ours(change: Change, base: StreamHome) -> bool:
    """Tell whether a change is the open cutover that this stream leads, or a guest of it."""
    ours = base.unfinished_change()
    if ours is None or not base.leads(ours):
        return False
    return change == ours or change.leader == f"{base.name}/{ours.number}"


def _is_this(
    change: Change, home: StreamHome, candidates: Sequence[Candidate], way: SwitchWay
) -> bool:
    from airflow_streaming.cutover.pairs import is_proposed  # not at dag parse

    terms = home.cutover_terms(change)
    return terms.way is way and is_proposed(terms.pairs, candidates)
