"""Judged: what was shown of green counts only for the driver that showed it."""

from __future__ import annotations

from airflow_streaming.core.cutover.judging.checks import comparison_of
from airflow_streaming.core.cutover.judging.judge import Result
from airflow_streaming.core.cutover.moving.moves import Do, Move, take
from airflow_streaming.core.cutover.moving.view import CutoverView, PairView, for_stream, of_stream
from airflow_streaming.core.cutover.table import TABLE, CutoverEvent

E = CutoverEvent
_BACK = (E.GREEN_CHANGED, E.GREEN_FELL_BEHIND)


def judged_green(view: CutoverView) -> Move | None:
    """Return the step that makes nothing of what was shown so far; ``None`` while it counts."""
    for pair in view.pairs:
        why = changed_driver(view, pair)
        if why:
            return take(E.GREEN_CHANGED, f"{pair.pair.green}: {why}")
        told = pair.ready
        if told is None or told.event is None or (view.state, told.event) not in TABLE:
            continue
        is_hold = told.event is E.INCONCLUSIVE and view.state.value == "shadowing"
        if told.event in _BACK or is_hold:
            facts = of_stream(pair.pair.stream, told.figures)
            return take(told.event, f"{pair.pair.green}: {told.reason}", facts)
    return None


def next_comparison(view: CutoverView) -> Move:
    """Return what follows from what comparisons and checks have shown so far."""
    shown = list(view.checks.values())
    failed = [one for one in shown if one.result is Result.FAIL]
    if failed:
        return take(E.OUTPUT_DIFFERS, f"{failed[0].name}: {failed[0].reason}", failed[0].figures)
    comparisons = [comparison_of(terms.stream) for terms in view.terms.compare]
    missing = [name for name in comparisons if name not in view.checks]
    if missing and view.compares:
        return Move(do=Do.COMPARE, reason="What both have written is compared.", lane=missing[0])
    missing += [name for name in view.terms.checks if name not in view.checks]
    if missing:
        return Move(do=Do.WAIT, reason=f"Nothing was told yet of: {', '.join(missing)}.")
    open_ones = [one for one in shown if one.result is Result.INCONCLUSIVE]
    if open_ones:
        return take(E.INCONCLUSIVE, f"{open_ones[0].name}: {open_ones[0].reason}")
    return take(E.OUTPUT_SAME, " ".join(one.reason for one in shown) or "Nothing is compared.")


def changed_driver(view: CutoverView, pair: PairView) -> str:
    """Say that green's driver is not the one that was judged; empty when it is."""
    bound = for_stream(pair.pair.stream, view.facts).get("green_epoch", "")
    if bound == str(pair.green_epoch):
        return ""
    return f"Epoch {pair.green_epoch} is not the one that was judged, which was {bound or 'none'}."
