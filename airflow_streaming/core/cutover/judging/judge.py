"""
Judging: what is proved of green, in three values.

Passed and failed are both proved; everything else is inconclusive. A judgement names the event that
follows from it, if one does: an inconclusive judgement without an event only means that it is too
early to tell, and the deadline of the state ends the waiting. Errors of measuring are counted apart
from failures, and no number of them makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from airflow_streaming.core.cutover.comparing.report import CompareReport, CompareResult
from airflow_streaming.core.cutover.judging.figures import LaneFigures, Since
from airflow_streaming.core.cutover.judging.lacking import (
    behind,
    figures_told,
    missing,
    trouble,
    uncaught,
    unproved,
)
from airflow_streaming.core.cutover.table import CutoverEvent
from airflow_streaming.core.cutover.terms import ReadyTerms
from airflow_streaming.core.upgrade.soak import SoakResult, SoakVerdict

PATIENCE: Final = 3
"""Times ``well_for`` after which a green that has had nothing to read proves nothing any more."""


class Result(StrEnum):
    """What is proved."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """
    What was proved, and why.

    :param figures: What was looked at; becomes part of the facts of the step that follows.
    :param event: What follows from it; ``None`` to look again later.
    :param errors: Errors of measuring in a row, to be handed to the next look.
    """

    result: Result
    reason: str
    figures: Mapping[str, str] = field(default_factory=dict)
    event: CutoverEvent | None = None
    errors: int = 0


def judge_catching_up(
    green: LaneFigures | None,
    blue: LaneFigures | None,
    terms: ReadyTerms,
    *,
    covers: Mapping[str, bool | None] | None = None,
    now: datetime,
) -> Judgement:
    """
    Say whether green has read what blue has read.

    :param covers: By query, whether green's position covers the one that blue had when green began
        to catch up; ``None`` where it cannot be told, and then the backlog has to do.
    :return: With ``GREEN_CAUGHT_UP`` and the facts of ``Since``, or without an event: a driver that
        does not work is tended by whoever started it, and the state has its deadline.
    """
    if green is None:
        return _waits("Green's driver has not given a sign of life yet.")
    if blue is None:
        return _waits("What blue has left to read cannot be seen.")
    told = figures_told(green, blue)
    lacking = [*trouble(green, blue), *missing(green, blue)]
    for query in green.queries:
        lacking += uncaught(query, blue.query(query.name), terms, (covers or {}).get(query.name))
    if lacking:
        return _waits(lacking[0], told)
    facts = told | Since.of(green, now).facts()
    reason = "Green has read as far as blue."
    return _judged(Result.PASS, reason, facts, CutoverEvent.GREEN_CAUGHT_UP)


def judge_ready(
    green: LaneFigures | None,
    blue: LaneFigures | None,
    terms: ReadyTerms,
    since: Since | None,
    *,
    compared: bool = False,
    errors: int = 0,
    now: datetime,
) -> Judgement:
    """
    Say whether green has been well for as long as the terms ask.

    :param since: ``Since.from_facts`` of the step that led to ``shadowing``.
    :param compared: Its output will be compared with blue's. Then a green that commits and reads no
        row, which may have let all of them go, is for the comparison to judge.
    :param errors: ``Judgement.errors`` of the look before; 0 for the first.
    :return: With ``GREEN_WELL``, ``GREEN_FELL_BEHIND``, ``GREEN_CHANGED`` or ``INCONCLUSIVE``, or
        without an event. A break is told as an event too, so that time before it never counts.
    """
    if green is None:
        return fold_errors(errors, terms, "Green's driver cannot be seen.")
    if since is None or (since.deployment, since.epoch) != (green.deployment, green.epoch):
        reason = (
            f"Green runs epoch {green.epoch} now: what another driver has shown does not count."
        )
        return _judged(Result.FAIL, reason, {}, CutoverEvent.GREEN_CHANGED)
    told = figures_told(green, blue)
    broken = [*trouble(green, blue), *behind(green, blue, terms)]
    if broken:
        return _judged(Result.FAIL, broken[0], told, CutoverEvent.GREEN_FELL_BEHIND)
    if blue is None:
        return fold_errors(errors, terms, "Blue's driver cannot be seen to compare with.")
    # The two clocks are only compared with themselves; what both agree on has passed.
    well = max(timedelta(0), min(green.at - since.at, now - since.seen_at))
    is_told = any(
        query.read or (compared and query.batches >= terms.batches) for query in green.queries
    )
    return _shown(
        terms, well, told, is_told, [*missing(green, blue), *unproved(green, blue, terms)]
    )


def judge_after(soak: SoakVerdict) -> Judgement:
    """Say what the soak after the switch has shown: ``SOAK_PASSED``, ``SOAK_FAILED`` or nothing."""
    result, event = {
        SoakResult.GOOD: (Result.PASS, CutoverEvent.SOAK_PASSED),
        SoakResult.BAD: (Result.FAIL, CutoverEvent.SOAK_FAILED),
        SoakResult.UNDECIDED: (Result.INCONCLUSIVE, None),
    }[soak.result]
    return _judged(result, soak.reason, soak.figures, event)


def judge_reports(reports: Iterable[CompareReport]) -> Judgement:
    """
    Say what all comparisons together have shown.

    :return: With ``OUTPUT_SAME``, ``OUTPUT_DIFFERS`` or ``INCONCLUSIVE``. One that differs outweighs
        all others. Without any report there was nothing to show, and the output counts as the same.
    """
    known = list(reports)
    told = {f"compared {report.stream}": report.reason for report in known}
    for wanted, result, event in (
        (CompareResult.DIFFERS, Result.FAIL, CutoverEvent.OUTPUT_DIFFERS),
        (CompareResult.INCONCLUSIVE, Result.INCONCLUSIVE, CutoverEvent.INCONCLUSIVE),
    ):
        found = [report for report in known if report.result is wanted]
        if found:
            reason = " ".join(f"{report.stream}: {report.reason}" for report in found)
            return _judged(result, reason, told, event)
    reason = " ".join(f"{report.stream}: {report.reason}" for report in known)
    none = "No comparison of outputs was asked for."
    return _judged(Result.PASS, reason or none, told, CutoverEvent.OUTPUT_SAME)


def fold_errors(errors: int, terms: ReadyTerms, error: str) -> Judgement:
    """
    Count an error of measuring.

    :param errors: How many there were in a row before this one.
    :param error: What went wrong, in a sentence.
    :return: Inconclusive; with the event ``INCONCLUSIVE`` once there are as many as the terms allow.
    """
    count = errors + 1
    reason = f"Measuring has failed {count} times in a row, which says nothing of green: {error}"
    is_enough = count >= terms.measuring_errors
    return Judgement(
        result=Result.INCONCLUSIVE,
        reason=reason,
        figures={"measuring_errors": str(count)},
        event=CutoverEvent.INCONCLUSIVE if is_enough else None,
        errors=count,
    )


def _shown(
    terms: ReadyTerms, well: timedelta, told: dict[str, str], is_told: bool, lacking: list[str]
) -> Judgement:
    """
    Say what follows from the time for which green has been well.

    :param is_told: It had something to read, or what it did with it is seen elsewhere.
    :param lacking: What it has not shown yet.
    """
    seconds = well.total_seconds()
    facts = told | {"well_for": f"{seconds:.0f} s"}
    if not lacking and is_told and well >= terms.well_for:
        reason = f"Green has been well for {seconds:.0f} s."
        return _judged(Result.PASS, reason, facts, CutoverEvent.GREEN_WELL)
    nothing = "Green has had nothing to read."
    if well >= PATIENCE * terms.well_for and (lacking or not is_told):
        reason = f"After {seconds:.0f} s nothing is proved: {(lacking or [nothing])[0]}"
        return _judged(Result.INCONCLUSIVE, reason, facts, CutoverEvent.INCONCLUSIVE)
    waits = f"Green has been well for {seconds:.0f} of {terms.well_for.total_seconds():.0f} s."
    return _waits(next(iter(lacking), waits if is_told else nothing), facts)


def _waits(reason: str, figures: Mapping[str, str] | None = None) -> Judgement:
    return _judged(Result.INCONCLUSIVE, reason, figures or {}, None)


def _judged(
    result: Result, reason: str, figures: Mapping[str, str], event: CutoverEvent | None
) -> Judgement:
    return Judgement(result=result, reason=reason, figures=figures, event=event)
