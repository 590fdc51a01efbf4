"""Preflight → Markdown: the page on which a person decides about an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.compatibility.markdown import as_markdown
from airflow_streaming.core.upgrade.preflight import Difference, Preflight
from airflow_streaming.core.upgrade.terms import RollbackWay, SoakTerms

_VERDICTS: Final = {
    GateDecision.ALLOWED: "Nothing speaks against it.",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "It can go on; read what it brings.",
    GateDecision.UNKNOWN: "Nothing forbids it and nothing proves it: it has to be rehearsed.",
    GateDecision.NOT_ALLOWED: "It must not go on.",
}
_WAYS: Final = {
    RollbackWay.REWIND: "It goes back to the backup that is taken at the stop, and the sinks are "
    "put back in step, as if it had never been tried.",
    RollbackWay.RESUME: "The old deployment goes on where the new one ended; what the new one "
    "wrote stays.",
    RollbackWay.NONE: "There is none.",
}


def preflight_page(found: Preflight, soak: SoakTerms) -> str:
    """Return the report as Markdown: the verdict, what changes, the findings, the way back."""
    return "\n".join(_lines(found, soak)).strip() + "\n"


def _lines(found: Preflight, soak: SoakTerms) -> Iterator[str]:
    yield f"## Upgrade of stream `{found.stream}`"
    yield ""
    yield (
        f"Deployment {found.replaced} → {found.proposed.number}. "
        f"**{found.decision.value.replace('_', ' ')}**: {_VERDICTS[found.decision]}"
    )
    yield from _changes(found)
    yield ""
    yield as_markdown(found.gates).strip()
    yield from _way_back(found)
    yield from _course(soak)
    if found.advice:
        yield "\n### What its figures say\n"
        yield from (f"- {line}" for line in found.advice)


def _changes(found: Preflight) -> Iterator[str]:
    yield "\n### What changes\n"
    yield from change_rows(found.differences, "Nothing: the same deployment is started again.")
    if found.sizes:
        yield "\n| size | becomes | where that comes from |"
        yield "|---|---|---|"
    for one in found.sizes:
        yield f"| {one.size} | {value_cell(one.value)} | {_one_line(one.source)} |"


def change_rows(changed: Sequence[Difference], nothing: str) -> Iterator[str]:
    """Yield the lines of a table of what changes; with the sentence when nothing does."""
    if not changed:
        yield nothing
        return
    yield "| what | now | after |"
    yield "|---|---|---|"
    for one in changed:
        yield f"| {value_cell(one.what)} | {value_cell(one.old)} | {value_cell(one.new)} |"


def _way_back(found: Preflight) -> Iterator[str]:
    plan = found.rollback
    yield "\n### The way back\n"
    yield f"{_WAYS[plan.way]} {plan.reason}".strip()
    if plan.replay:
        yield f"\n{plan.replay}"
    if plan.refused:
        yield f"\n{plan.refused}"


def _course(soak: SoakTerms) -> Iterator[str]:
    yield "\n### What happens when it is approved\n"
    yield (
        "A verified backup, a stop at a batch boundary, the new deployment on the same checkpoint. "
        f"It is watched for at least {duration_text(soak.at_least)} and at most {duration_text(soak.at_most)}: "
        f"every query has to commit {soak.batches} batches, its backlog may not exceed "
        f"{soak.backlog_growth:g} times what it was, and nothing new may fail. A good one is kept, "
        "and from there it only goes forward; anything else is rolled back."
    )


def value_cell(text: str) -> str:
    """Return a value as a cell of a table."""
    shown = _one_line(text)
    return f"`{shown}`" if shown else "—"


def _one_line(text: str) -> str:
    # A bar or a line break in a value must not end the cell.
    return " ".join(text.replace("|", "\\|").split())


def duration_text(duration: timedelta) -> str:
    """Return a duration as a person says it."""
    seconds = duration.total_seconds()
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 2 * 3600 else f"{seconds / 3600:g} h"
