"""Reasons against a migration of state: one sentence for each kind of rule."""

from __future__ import annotations

from typing import Final

_REASONS: Final = {
    "aggregation": "The plans do not tell which columns this aggregation keeps.",
    "checkpoint": "The checkpoint must be sound before its state can be migrated.",
    "code": "The code of the query reads other content, and an operator that continues may hold results of the old one.",
    "conf": "The setting is pinned in the checkpoint or decides how an operator that continues reads its state.",
    "cutover": "The refusal is about the two deployments of a cutover.",
    "join": "The refusal is about a join that continues beside other operators.",
    "operator": "The plans do not tell which operators are the same.",
    "output_mode": "The rows that were written are of the old mode, and a migration of state changes no written rows.",
    "projection": "The rows that were written have the old type, and a migration of state changes no written rows.",
    "query": "The refusal is about the place of the checkpoint.",
    "script": "Without a query there is no state to migrate.",
    "sink": "The rows that were written stay where they are, and a migration of state changes no written rows.",
    "source": "A migration keeps the positions of the sources, and this position does not fit the new source.",
    "spark": "Spark refuses the new code on any checkpoint.",
    "step": "An operator continues behind the changed step.",
    "trigger": "The refusal is about the trigger.",
    "user_state": "The function's operator stands beside operators that come or go.",
    "variable": "The function's operator stands beside operators that come or go.",
    "version": "The refusal is about the Spark release; upgrade Spark with the running code first.",
    "watermark": "The rows that were late under the old watermark are gone, and the state does not tell which.",
}
"""By the first part of a rule's name."""
CARRY_OVER: Final = (
    "The query has no state. `checkpoint carry-over --source` makes a checkpoint with the positions of the sources that "
    "stay."
)
_OTHER: Final = "A migration changes nothing but state."


def reason_of(rule: str, *, is_stateful: bool = True) -> str:
    """Return the reason against a migration for the refusal of a rule."""
    kind = rule.partition(".")[0]
    if kind == "source" and not is_stateful:
        return CARRY_OVER
    return f"No migration of state lifts {rule}. {_REASONS.get(kind, _OTHER)}"
