"""Preflight of a cutover → Markdown: the page on which a person decides whether it begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.compatibility.markdown import DECISION_WORDS, as_markdown
from airflow_streaming.core.cutover.planning.course import Course
from airflow_streaming.core.cutover.planning.preflight import CutoverPreflight, PairPreflight
from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.terms import ReadyTerms, StartWay, SwitchWay
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.lanes import Colour, colour_of
from airflow_streaming.core.upgrade.preflight_page import change_rows, duration_text

_VERDICTS: Final = {
    GateDecision.ALLOWED: "Nothing speaks against it.",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "It can go on; read what it brings.",
    GateDecision.UNKNOWN: "Nothing forbids it and nothing proves it; green has to show it beside blue.",
    GateDecision.NOT_ALLOWED: "It must not go on like this.",
}
_WAYS: Final = {
    SwitchWay.PARALLEL: "Green writes an output of its own, and at the switch consumers are led to it.",
    SwitchWay.HANDOVER: "At the switch blue is drained at a batch boundary, and green goes on in "
    "blue's output from that very batch.",
}
_STARTS: Final = {
    StartWay.FRESH: "an empty checkpoint",
    StartWay.CLONED: "a copy of blue's checkpoint",
    StartWay.CARRIED: "blue's position in the sources, without state",
}
_BACK: Final = {
    SwitchWay.PARALLEL: "consumers are led back to blue's output, where blue goes on. What green has "
    "written stays in its own output, which nobody reads any more.",
    SwitchWay.HANDOVER: "green is drained, and blue goes on from its last batch. **What green has "
    "written into the output by then stays there.**",
}


def cutover_page(found: CutoverPreflight, course: Course, replaces: str = "") -> str:
    """
    Return the report as Markdown: the verdict, what changes, both ways, the course, the end.

    :param replaces: What is given up for this, such as an earlier blue; empty for nothing.
    """
    return "\n".join(_lines(found, course, replaces)).strip() + "\n"


def _lines(found: CutoverPreflight, course: Course, replaces: str) -> Iterator[str]:
    names = ", ".join(f"`{one.pair.stream}`" for one in found.pairs)
    yield f"## Cutover of stream{'s' if len(found.pairs) > 1 else ''} {names}\n"
    yield (
        f"By **{_way(found.way)}**: {_WAYS[found.way]}\n\n"
        f"**{found.decision.value.replace('_', ' ')}**: {_VERDICTS[found.decision]}"
    )
    if replaces:
        yield f"\n{replaces}"
    for one in found.pairs:
        yield from _pair(one, found.way)
    yield from _course(found, course)
    yield from _no_return(found.way, course)


def _pair(one: PairPreflight, way: SwitchWay) -> Iterator[str]:
    pair = one.pair
    yield f"\n### Stream `{pair.stream}`\n"
    yield "| | live now (blue) | beside it (green) |"
    yield "|---|---|---|"
    yield f"| lane | `{pair.blue}` | `{pair.green}` |"
    yield f"| deployment | {pair.blue_deployment} | {pair.shadow.number} |"
    yield f"| output beside blue | | `{pair.shadow.output}` |"
    if pair.live.output != pair.shadow.output:
        yield f"| output once live | | `{pair.live.output}` |"
    if colour_of(pair.blue) is not Colour.BLUE:
        yield "\nBlue is the lane that is live when a cutover begins, whatever it is called."
    yield from _start(one)
    yield "\n#### What changes\n"
    yield from change_rows(one.differences, "Nothing: the same deployment runs in the other lane.")
    yield from _both_ways(one, way)
    yield from _gates(one)


def _start(one: PairPreflight) -> Iterator[str]:
    yield f"\n**Green begins with {_STARTS[one.pair.start]}.** {one.why}"
    if one.replay is None:
        return
    yield f"\n{_reads_from(one.pair.shadow)} {one.replay.reason}"
    asked = one.pair.shadow.replay_from
    at = one.replay.at.isoformat() if one.replay.at else ""
    if asked != at:
        yield f"\nThat was asked for; computed was {f'`{at}`' if at else 'the beginning'}."
    if one.replay.complete_from is not None:
        yield (
            f"\nResults are complete for event times from `{one.replay.complete_from.isoformat()}` "
            "on; only those are compared."
        )


def _reads_from(shadow: Deployment) -> str:
    if not any("{replay_from" in one for one in shadow.application_args):
        told = f" that would say `{shadow.replay_from}`" if shadow.replay_from else ""
        return (
            "**It reads from wherever the script itself begins**: its arguments have no "
            f"`{{replay_from}}`{told}."
        )
    said = f"`{shadow.replay_from}`" if shadow.replay_from else "the beginning of its sources"
    return f"**It reads from {said}** (`{{replay_from}}` in its arguments)."


def _both_ways(one: PairPreflight, wished: SwitchWay) -> Iterator[str]:
    yield "\n#### Which ways are sound\n"
    yield "| way | verdict | |"
    yield "|---|---|---|"
    for way in SwitchWay:
        decision = DECISION_WORDS[one.ways.of(way).decision]
        yield f"| {_way(way)} | {decision} | {'**asked for**' if way is wished else ''} |"
    for way in sorted(SwitchWay, key=lambda way: way is not wished):
        if one.ways.of(way).findings:
            yield f"\n**{_way(way).capitalize()}**\n"
            yield as_markdown(one.ways.of(way)).partition("\n")[2].strip()


def _gates(one: PairPreflight) -> Iterator[str]:
    if not one.gates.findings:
        return
    yield "\n#### What the gates say of going on from blue's checkpoint\n"
    if one.pair.start is not StartWay.CLONED:
        yield (
            "Green does not go on from blue's state, so what is said here of state is why it is "
            "done like this, and does not count against it.\n"
        )
    yield as_markdown(one.gates).strip()


def _course(found: CutoverPreflight, course: Course) -> Iterator[str]:
    ready, time = course.ready, duration_text
    yield "\n### What happens when it is approved\n"
    laid = "Pointers that are new are led to blue. "
    yield (
        f"1. {laid if course.pointers else ''}Green starts beside blue, with an output of its own, "
        f"and catches up{_at_most(course)}."
    )
    yield (
        f"2. It has to be well for {time(ready.well_for)} without a break, commit {ready.batches} "
        f"batches of every query, and leave no more unread than blue{_bound(ready)}."
    )
    yield f"3. {_compared(course)}"
    yield (
        "4. A green that is ready becomes live by itself; where nothing is proved, a person is asked."
        if course.promotes_by_itself
        else "4. A person is asked, with the judgement and the comparison before him."
    )
    yield f"5. The switch. {_WAYS[found.way]} {_pointers(course)}"
    soak = course.soak
    yield (
        f"6. Green is watched for at least {time(soak.at_least)} and at most {time(soak.at_most)}"
        + (
            "; blue runs on beside it."
            if found.way is SwitchWay.PARALLEL and course.keeps_blue_running
            else "."
        )
    )


def _no_return(way: SwitchWay, course: Course) -> Iterator[str]:
    yield "\n### What can be undone, and until when\n"
    yield "| when | what happens when it fails, or somebody says no |"
    yield "|---|---|"
    yield "| before the switch | green is taken down, by itself. Blue is as it was. |"
    yield f"| from the switch to the end of the soak | {_BACK[way]} |"
    kept = duration_text(course.retain_blue)
    who = (
        "The end of a good soak" if course.finalises_by_itself else "A person's word after the soak"
    )
    yield (
        f"| afterwards | **only forward.** Blue is stopped; its checkpoint and output are kept for "
        f"{kept}. To go back then, cut over again. |"
    )
    yield (
        f"\n**{who} is the point of no return.** After the {kept} blue's final backup is taken, and "
        "its lane is free."
    )


def _compared(course: Course) -> str:
    checks = f" The checks {', '.join(course.checks)} have to pass." if course.checks else ""
    if not course.compare:
        return f"The outputs are **not compared**, because no terms for that were given.{checks}"
    streams = ", ".join(f"`{terms.stream}`" for terms in course.compare)
    return f"What both have written is compared, bucket by bucket: {streams}.{checks}"


def _pointers(course: Course) -> str:
    told = [
        f"{name} ({'moves as one' if is_atomic else '**not atomic**: for a moment it may show neither'})"
        for name, is_atomic in course.pointers.items()
    ]
    return f"Moved with it: {', '.join(told)}." if told else ""


def _bound(ready: ReadyTerms) -> str:
    factor = f" times {ready.backlog_factor:g}" if ready.backlog_factor != 1 else ""
    if ready.backlog_records is None:
        return factor
    return f"{factor}, and at most {ready.backlog_records:g} records"


def _at_most(course: Course) -> str:
    limit = course.deadline(CutoverState.CATCHING_UP)
    return "" if limit is None else f" (given up after {duration_text(limit)})"


def _way(way: SwitchWay) -> str:
    return {SwitchWay.PARALLEL: "parallel outputs", SwitchWay.HANDOVER: "handover on one sink"}[way]
