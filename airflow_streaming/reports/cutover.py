"""The reports of a cutover, for the approvals of its start and of its switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.changes.cutover.plan import CutoverPlan, CutoverPreflight, PairPreflight
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.terms import ReadyTerms
from airflow_streaming.model.durations import duration_text, number_text
from airflow_streaming.model.jobs.comparison import CompareReport
from airflow_streaming.model.names import Color, color_of
from airflow_streaming.model.records.cutover import (
    CheckResult,
    CutoverTerms,
    Pair,
    Result,
    comparison_of,
)
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState, CutoverTransition
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.reports.comparison import comparison_report
from airflow_streaming.reports.gate import BLOCKED, DECISION_WORDS, TONES, findings_of, gate_report
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Items,
    Paragraph,
    Report,
    Span,
    Tone,
    Verdict,
    Words,
    code,
    joined,
    report_of,
    strong,
    table,
    value,
)
from airflow_streaming.reports.upgrade import changes_of, kept_blocks

_VERDICTS: Final = {
    GateDecision.ALLOWED: "No blocking findings.",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "Allowed, with consequences; read them below.",
    GateDecision.UNKNOWN: "Unknown: no rule forbids it and no measurement proves it; green must "
    "prove it beside blue.",
    GateDecision.NOT_ALLOWED: BLOCKED,
}
_WAYS: Final = {
    SwitchMethod.PARALLEL: "Green writes its own output, and at the switch consumers are pointed to it.",
    SwitchMethod.HANDOVER: "At the switch blue is drained at a batch boundary, and green resumes in blue's "
    "output from that batch.",
}
_STARTS: Final = {
    StartWay.FRESH: "an empty checkpoint",
    StartWay.CLONED: "a copy of blue's checkpoint",
    StartWay.MIGRATED: "a migrated copy of blue's checkpoint",
    StartWay.CARRIED: "blue's position in the sources, without state",
}
_BACK: Final[Mapping[SwitchMethod, Words]] = {
    SwitchMethod.PARALLEL: "consumers are pointed back to blue's output, where blue "
    "continues. Green's output stays in its own place, which "
    "consumers no longer read.",
    SwitchMethod.HANDOVER: (
        "green is drained, and blue resumes from green's last batch. ",
        strong("Output that green has written there by then stays."),
    ),
}

_MOST_FACTS: Final = 40
_COMPARISON: Final = comparison_of("")
_STANDS: Final = {
    CutoverState.READY: ("ready", Tone.GOOD),
    CutoverState.HELD: ("not proved, approval needed", Tone.UNKNOWN),
    CutoverState.SOAKING: ("live, soak in progress", Tone.GOOD),
}
_RESULTS: Final[Mapping[Result, Words]] = {
    Result.PASS: "passed",
    Result.FAIL: strong("failed"),
    Result.INCONCLUSIVE: "inconclusive",
}


def cutover_report(found: CutoverPreflight, course: CutoverPlan, replaces: Words = "") -> Report:
    """
    Return a preflight: the decision, the differences, both methods, the course, the end.

    :param replaces: Data that is removed for this, such as an earlier blue; empty for nothing.
    """
    return report_of(_blocks(found, course, replaces))


def _blocks(found: CutoverPreflight, course: CutoverPlan, replaces: Words) -> Iterator[Block]:
    yield Heading(("Cutover of ", *_streams([one.pair for one in found.pairs])), 2)
    yield Verdict(
        subject="Decision",
        word=found.decision.value.replace("_", " "),
        tone=TONES[found.decision],
        reason=_VERDICTS[found.decision],
    )
    yield Paragraph(("By ", strong(_way(found.way)), f": {_WAYS[found.way]}"))
    if replaces:
        yield Paragraph(replaces)
    for one in found.pairs:
        yield from _pair(one, found.way)
    if found.decision is not GateDecision.NOT_ALLOWED:
        yield from _course(found, course)
        yield from _no_return(found.way, course)


def _streams(pairs: Sequence[Pair]) -> tuple[str | Span, ...]:
    return f"stream{'s' if len(pairs) > 1 else ''} ", *joined(code(one.stream) for one in pairs)


def _pair(one: PairPreflight, way: SwitchMethod) -> Iterator[Block]:
    pair = one.pair
    yield Heading(("Stream ", code(pair.stream)))
    rows: list[tuple[Words, Words, Words]] = [
        ("lane", code(pair.blue), code(pair.green)),
        ("deployment", f"{pair.blue_deployment}", f"{pair.shadow.number}"),
        ("output beside blue", "", code(pair.shadow.output)),
    ]
    if pair.live.output != pair.shadow.output:
        rows.append(("output once live", "", code(pair.live.output)))
    yield table(("", "live now (blue)", "beside it (green)"), rows)
    if color_of(pair.blue) is not Color.BLUE:
        yield Paragraph(
            "Blue is the lane that is live when a cutover starts, regardless of its name."
        )
    yield from _start(one)
    yield Heading("What changes", 4)
    yield changes_of(one.differences, "Nothing: the same deployment runs in the other lane.")
    yield from kept_blocks(one.kept)
    yield from _both_ways(one, way)
    yield from _gates(one)


def _start(one: PairPreflight) -> Iterator[Block]:
    start = strong(f"Green starts with {_STARTS[one.pair.start]}.")
    yield Paragraph((start, " ", one.why))
    if one.replay is None:
        return
    yield Paragraph((*_reads_from(one.pair.shadow), " ", one.replay.reason))
    asked = one.pair.shadow.replay_from
    at = one.replay.at.isoformat() if one.replay.at else ""
    if asked != at:
        computed = code(at) if at else "the beginning"
        yield Paragraph(("This value was requested; the computed one was ", computed, "."))
    if one.replay.complete_from is not None:
        moment = code(one.replay.complete_from.isoformat())
        yield Paragraph(
            ("Results are complete for event times from ", moment, " on; only those are compared.")
        )


def _reads_from(shadow: Deployment) -> tuple[str | Span, ...]:
    at = code(shadow.replay_from)
    if not any("{replay_from" in one for one in shadow.application_args):
        asked = (" to read from ", at) if shadow.replay_from else ()
        return (
            strong("It reads from wherever the script itself starts"),
            ": its arguments have no `{replay_from}`",
            *asked,
            ".",
        )
    where = at if shadow.replay_from else strong("the beginning of its sources")
    return strong("It reads from"), " ", where, " (`{replay_from}` in its arguments)."


def _both_ways(one: PairPreflight, wished: SwitchMethod) -> Iterator[Block]:
    yield Heading("Which methods are safe", 4)
    ways = sorted(SwitchMethod, key=lambda way: way is not wished)
    yield table(
        ("method", "decision", "requested"),
        (
            (_way(way), DECISION_WORDS[one.ways.of(way).decision], _yes(way is wished))
            for way in SwitchMethod
        ),
    )
    for way in ways:
        if one.ways.of(way).findings:
            yield Paragraph(strong(_way(way).capitalize()))
            yield from findings_of(one.ways.of(way))


def _yes(is_so: bool) -> Words:
    return strong("yes") if is_so else ""


def _gates(one: PairPreflight) -> Iterator[Block]:
    if not one.gates.findings:
        return
    yield Heading("Gates: can green resume from blue's checkpoint?", 4)
    if not one.pair.start.is_copy:
        yield Paragraph(
            "Green does not resume from blue's state, so findings about state explain why green starts "
            "this way and do not count against it."
        )
    yield from gate_report(one.gates).blocks


def _course(found: CutoverPreflight, course: CutoverPlan) -> Iterator[Block]:
    yield Heading("After the approval")
    yield Items(items=tuple(_steps(found.way, course)), is_numbered=True)


def _steps(way: SwitchMethod, course: CutoverPlan) -> Iterator[Words]:
    ready, soak = course.ready, course.soak
    yield (
        f"{'New pointers are set to blue. ' if course.pointers else ''}Green starts beside blue, with "
        f"an output of its own, and catches up{_at_most(course)}."
    )
    yield (
        f"It must be healthy for {duration_text(ready.well_for)} without a break, commit {ready.batches} "
        f"batches of every query, and leave no more unread than blue{_bound(ready)}."
    )
    yield _compared(course)
    yield (
        "A ready green becomes live automatically; if nothing is compared, or inconclusively, an approval is "
        "requested."
        if course.promotes_by_itself
        else "An approval is requested, with the verdict and the comparison."
    )
    yield (f"The switch. {_WAYS[way]} ", *_pointers(course))
    beside = way is SwitchMethod.PARALLEL and course.keeps_blue_running
    yield (
        f"Green is watched for at least {duration_text(soak.at_least)} and at most "
        f"{duration_text(soak.at_most)}{'; blue runs on beside it' if beside else ''}."
    )


def _no_return(way: SwitchMethod, course: CutoverPlan) -> Iterator[Block]:
    kept = duration_text(course.retain_blue)
    then = (
        f" Blue is stopped; its checkpoint and output are kept for {kept}. To go back within that time, "
        "start another cutover."
    )
    who = "The end of a good soak" if course.finalizes_by_itself else "The approval after the soak"
    yield Heading("Possible rollbacks, and until when")
    yield table(
        ("when", "consequence of a failure or a rejection"),
        (
            ("before the switch", "green is stopped automatically. Blue is unchanged."),
            ("from the switch to the end of the soak", _BACK[way]),
            ("afterwards", (strong("no rollback."), then)),
        ),
    )
    yield Paragraph(
        (
            strong(f"{who} is the point of no return."),
            f" After the {kept} blue's final backup is taken, and its lane is free.",
        )
    )


def _compared(course: CutoverPlan) -> Words:
    checks = (
        (" The checks ", *joined(map(value, course.checks)), " must pass.") if course.checks else ()
    )
    if not course.compare:
        told = (
            "The outputs are ",
            strong("not compared"),
            ", because the terms do not configure it.",
        )
        return *told, *checks
    streams = joined(code(terms.stream) for terms in course.compare)
    return "The outputs of both are compared, bucket by bucket: ", *streams, ".", *checks


def _pointers(course: CutoverPlan) -> tuple[str | Span, ...]:
    if not course.pointers:
        return ()
    told = [
        (value(name), " (moves as one)")
        if is_atomic
        else (value(name), " (", strong("not atomic"), ": for a moment it may show neither)")
        for name, is_atomic in course.pointers.items()
    ]
    return "Moved with it: ", *joined(told), "."


def _bound(ready: ReadyTerms) -> str:
    factor = f" times {number_text(ready.backlog_factor)}" if ready.backlog_factor != 1 else ""
    if ready.backlog_records is None:
        return factor
    return f"{factor}, and at most {ready.backlog_records:,.0f} records"


def _at_most(course: CutoverPlan) -> str:
    limit = course.deadline(CutoverState.CATCHING_UP)
    return "" if limit is None else f" (aborted after {duration_text(limit)})"


def _way(way: SwitchMethod) -> str:
    return {
        SwitchMethod.PARALLEL: "parallel outputs",
        SwitchMethod.HANDOVER: "handover on one sink",
    }[way]


def promotion_report(
    terms: CutoverTerms,
    history: Sequence[CutoverTransition],
    checks: Mapping[str, CheckResult],
    comparisons: Sequence[CompareReport] = (),
) -> Report:
    """
    Return the findings about green, and the effects of an approval and a rejection.

    :param checks: Results of comparisons and the author's checks, by name.
    :param comparisons: The comparisons, a report a stream.
    """
    return report_of(_promotion(terms, history, checks, comparisons))


def _promotion(
    terms: CutoverTerms,
    history: Sequence[CutoverTransition],
    checks: Mapping[str, CheckResult],
    comparisons: Sequence[CompareReport],
) -> Iterator[Block]:
    state = CUTOVER.state_of(history)
    usual = (state.value.replace("_", " "), Tone.NEUTRAL)
    word, tone = _STANDS.get(state, usual)
    yield Heading(("Green of ", *_streams(terms.pairs)), 2)
    reason = history[-1].reason if history else ""
    yield Verdict(subject="Green", word=word, tone=tone, reason=reason)
    yield from _answers(terms, state)
    yield from _checks(checks, are_below=bool(comparisons))
    for one in comparisons:
        yield from comparison_report(one).deeper().blocks
    yield from _figures(history)
    yield from _steps_so_far(history)


def _answers(terms: CutoverTerms, state: CutoverState) -> Iterator[Block]:
    if state not in _STANDS:
        return
    approve, reject = _soaked(terms) if state is CutoverState.SOAKING else _switching(terms)
    yield Items(
        items=(
            (strong("Approve"), f": {approve}"),
            (strong("Reject"), f": {reject}"),
        )
    )


def _soaked(terms: CutoverTerms) -> tuple[str, str]:
    approve = (
        "green stays. This is the point of no return; blue is stopped, and its checkpoint and output "
        f"are kept for {duration_text(terms.retain_blue)}. To go back within that time, start another "
        "cutover."
    )
    return approve, "consumers are pointed back to blue."


def _switching(terms: CutoverTerms) -> tuple[str, str]:
    approve = (
        "green's next driver is started and waits, blue is drained at a batch boundary, and green "
        "resumes in its output from there. A rollback is possible until the end of the soak; what green "
        "has written by then stays."
        if terms.way is SwitchMethod.HANDOVER
        else "consumers are pointed to green's output. A rollback is possible until the end of the soak, "
        "and points them back to blue's."
    )
    return approve, "green is stopped, and blue is unchanged."


def _checks(checks: Mapping[str, CheckResult], *, are_below: bool) -> Iterator[Block]:
    if checks:
        yield Heading("Checks and comparisons")
        rows = (_check(name, found, are_below=are_below) for name, found in checks.items())
        yield table(("what", "result", "reason"), rows)


def _check(name: str, found: CheckResult, *, are_below: bool) -> tuple[Words, ...]:
    is_below = are_below and name.startswith(_COMPARISON)
    return code(name), _RESULTS[found.result], "see below" if is_below else value(found.reason)


def _figures(history: Sequence[CutoverTransition]) -> Iterator[Block]:
    judged = next((step for step in reversed(history) if step.facts), None)
    if judged is None:
        return
    yield Heading(f"Figures of step {judged.number} ({judged.event.value.replace('_', ' ')})")
    told = list(judged.facts.items())[:_MOST_FACTS]
    yield table(("figure", "value"), ((code(name), code(found)) for name, found in told))


def _steps_so_far(history: Sequence[CutoverTransition]) -> Iterator[Block]:
    if not history:
        return
    yield Heading("Steps so far")
    yield table(
        ("step", "at", "state", "reason"),
        (
            (
                str(step.number),
                f"{step.at:%Y-%m-%d %H:%M:%S} UTC",
                strong(step.after.value.replace("_", " ")),
                step.reason,
            )
            for step in history
        ),
        "step",
    )
