"""
Contradiction: a plan that is not the one that the checkpoint was made by.

A plan says more than a checkpoint does, and is believed for that; but not against the checkpoint's
own files. Whoever gives the plan of another query gets no answer from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.checkpoint_operators import sort_of
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.stored import StoreSchema
from airflow_streaming.core.plan.plan import QueryPlan

CONTRADICTION: Final = Rule(
    name="version.contradiction",
    severity=GateDecision.UNKNOWN,
    sentence="The plan is not the one that this checkpoint was made by; what is said of it here was "
    "told by the checkpoint alone.",
    source="the plan held against the checkpoint's own files",
    remedy="Give the plan of the script that made this checkpoint, or look whether it is the right "
    "checkpoint.",
)

RULES: Final = (CONTRADICTION,)


def contradictions(
    plan: QueryPlan | None, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    """Yield what of a plan cannot be true of a checkpoint: its sources, its stateful operators."""
    if plan is None or checkpoint.last_planned_batch is None:
        return
    yield from _sources(plan, checkpoint)
    if checkpoint.last_committed_batch is not None or checkpoint.operators:
        yield from _operators(plan, checkpoint, schemas)


def _operators(
    plan: QueryPlan, checkpoint: Checkpoint, schemas: Sequence[StoreSchema]
) -> Iterator[GateFinding]:
    planned = [operator.sort.value for operator in plan.operators]
    stored = [sort_of(operator, schemas) for operator in checkpoint.operators]
    # A sort that the files do not tell counts as the one of the plan.
    known = [
        sort.value if sort else (planned[place] if place < len(planned) else "other")
        for place, sort in enumerate(stored)
    ]
    if known != planned:
        folders = ", ".join(f"state/{operator.id}" for operator in checkpoint.operators)
        yield _found("stateful operators", known, planned, folders or "no folder state")


def _sources(plan: QueryPlan, checkpoint: Checkpoint) -> Iterator[GateFinding]:
    stored = [position.name for position in checkpoint.sources]
    if not stored or not plan.sources:
        # Every streaming query has a source: such a plan does not tell its own.
        return
    planned = [source.name for source in plan.sources]
    evidence = f"offsets/{checkpoint.last_planned_batch}"
    if all(name.isdigit() for name in stored):
        if len(stored) != len(planned):
            yield _found("sources", [str(len(stored))], [str(len(planned))], evidence)
    elif not set(planned) <= set(stored):
        # The log keeps the line of a source that was taken out of the code.
        yield _found(
            "names of sources", stored, [name or "(no name)" for name in planned], evidence
        )


def _found(what: str, stored: list[str], planned: list[str], evidence: str) -> GateFinding:
    old, new = (", ".join(names) or "none" for names in (stored, planned))
    return CONTRADICTION.found(
        f"{CONTRADICTION.sentence} Its {what}: {old} by the checkpoint, {new} by the plan.",
        old=old,
        new=new,
        evidence=evidence,
    )
