"""
Facts → advice: what is risky about a stream, before it hurts.

Health rules speak of now; the doctor speaks of how a stream is set up. Each rule reads the facts
and answers risk, fine, or could not be examined. It never looks at anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from airflow_streaming.core.doctor import (
    flow,
    places,
    settings,
    state,
)
from airflow_streaming.core.doctor.facts import Advice, Facts, Outcome, RiskLevel, unknown

Rule = Callable[[Facts], Iterator[Advice]]

RULES: Final[tuple[Rule, ...]] = (
    places.shared,
    places.local_disk,
    places.temporary,
    places.output_in_checkpoint,
    state.growth,
    state.watermark,
    state.state_store,
    settings.event_log,
    settings.shuffle_partitions,
    settings.fair_scheduling,
    flow.rate_limit,
    flow.processing_trigger,
    flow.retention,
    settings.without_effect,
    settings.metrics,
)

_GRAVITY: Final = {RiskLevel.HIGH: 0, RiskLevel.MEDIUM: 1, RiskLevel.LOW: 2, None: 3}
_ORDER: Final = {Outcome.RISK: 0, Outcome.UNKNOWN: 1, Outcome.FINE: 2}


def examine(facts: Facts) -> tuple[Advice, ...]:
    """Return what every rule says: risks first, the gravest first, then what was not examined."""
    said = [unknown("reading", sentence) for sentence in facts.unread]
    said += [advice for rule in RULES for advice in rule(facts)]
    return tuple(sorted(said, key=lambda one: (_ORDER[one.outcome], _GRAVITY[one.level])))


def risks(said: Iterable[Advice]) -> tuple[Advice, ...]:
    """Return the advice that speaks of a risk."""
    return tuple(one for one in said if one.outcome is Outcome.RISK)
