"""A judged green → Markdown: the page on which a person decides whether it becomes, or stays, live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.core.cutover.judging.checks import CheckResult, comparison_of
from airflow_streaming.core.cutover.judging.judge import Result
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import CutoverTerms, SwitchWay
from airflow_streaming.core.cutover.transition import Transition, state_of
from airflow_streaming.core.upgrade.preflight_page import duration_text, value_cell

_MOST_FACTS: Final = 40
_COMPARISON: Final = comparison_of("")

_STANDS: Final = {
    CutoverState.READY: "Green is **ready**: it has shown what was asked of it.",
    CutoverState.HELD: "**Nothing is proved, either way**, so a person has to say.",
    CutoverState.SOAKING: "Green is **live**, and has been watched.",
}
_RESULTS: Final = {
    Result.PASS: "passed",
    Result.FAIL: "**failed**",
    Result.INCONCLUSIVE: "proves nothing",
}


def promotion_page(
    terms: CutoverTerms,
    history: Sequence[Transition],
    checks: Mapping[str, CheckResult],
    comparisons: Sequence[str] = (),
) -> str:
    """
    Return what was found of green, and what a yes and a no bring.

    :param checks: What comparisons and the author's checks have shown, by name.
    :param comparisons: Their pages, as Markdown.
    """
    return "\n".join(_lines(terms, history, checks, comparisons)).strip() + "\n"


def _lines(
    terms: CutoverTerms,
    history: Sequence[Transition],
    checks: Mapping[str, CheckResult],
    comparisons: Sequence[str],
) -> Iterator[str]:
    state = state_of(history)
    names = ", ".join(f"`{pair.stream}`" for pair in terms.pairs)
    yield f"## Green of stream{'s' if len(terms.pairs) > 1 else ''} {names}\n"
    yield _STANDS.get(state, f"It stands at **{state.value.replace('_', ' ')}**.")
    if history:
        yield f"\n{history[-1].reason}"
    yield from _answers(terms, state)
    yield from _checks(checks, are_below=bool(comparisons))
    yield from (f"\n{page}" for page in comparisons)
    yield from _facts(history)
    yield from _course(history)


def _answers(terms: CutoverTerms, state: CutoverState) -> Iterator[str]:
    if state not in _STANDS:
        return
    kept = duration_text(terms.retain_blue)
    if state is CutoverState.SOAKING:
        yield (
            f"\n- **Yes**: green stays. This is the point of no return; blue is stopped, and its "
            f"checkpoint and output are kept for {kept}. To go back then, cut over again."
        )
        yield "- **No**: consumers are led back to blue."
        return
    is_handover = terms.way is SwitchWay.HANDOVER
    yield "\n- **Yes**: " + (
        "green's next driver is started and waits, blue is drained at a batch boundary, and green "
        "goes on in its output from there. Going back is possible until the end of the soak; what "
        "green has written by then stays."
        if is_handover
        else "consumers are led to green's output. Going back is possible until the end of the soak, "
        "and leads them to blue's again."
    )
    yield "- **No**: green is taken down, and blue is as it was."


def _checks(checks: Mapping[str, CheckResult], *, are_below: bool) -> Iterator[str]:
    if not checks:
        return
    yield "\n### Checks and comparisons\n"
    yield "| what | result | |"
    yield "|---|---|---|"
    for name, found in checks.items():
        is_below = are_below and name.startswith(_COMPARISON)
        reason = "see below" if is_below else " ".join(found.reason.replace("|", "\\|").split())
        yield f"| {value_cell(name)} | {_RESULTS[found.result]} | {reason} |"


def _facts(history: Sequence[Transition]) -> Iterator[str]:
    judged = next((step for step in reversed(history) if step.facts), None)
    if judged is None:
        return
    yield f"\n### Figures of step {judged.number} ({judged.event.value.replace('_', ' ')})\n"
    yield "| figure | |"
    yield "|---|---|"
    for name, value in list(judged.facts.items())[:_MOST_FACTS]:
        yield f"| {value_cell(name)} | {value_cell(value)} |"


def _course(history: Sequence[Transition]) -> Iterator[str]:
    if not history:
        return
    yield "\n### How it came here\n"
    for step in history:
        after = step.after.value.replace("_", " ")
        yield f"{step.number}. {step.at:%Y-%m-%d %H:%M:%S} UTC: **{after}**. {step.reason}"
