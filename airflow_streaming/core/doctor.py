"""
Facts → advice: what is risky about a stream, before it hurts.

Health rules speak of now; the doctor speaks of how a stream is set up. Each rule reads the facts and
answers risk, fine, or could not be examined. It never looks at anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from airflow_streaming.core import (
    doctor_flow,
    doctor_places,
    doctor_settings,
    doctor_state,
)
from airflow_streaming.core.doctor_facts import Advice, Facts, Outcome, RiskLevel, unknown

Rule = Callable[[Facts], Iterator[Advice]]

RULES: Final[tuple[Rule, ...]] = (
    doctor_places.shared,
    doctor_places.local_disk,
    doctor_places.temporary,
    doctor_places.output_in_checkpoint,
    doctor_state.growth,
    doctor_state.watermark,
    doctor_state.state_store,
    doctor_settings.event_log,
    doctor_settings.shuffle_partitions,
    doctor_settings.fair_scheduling,
    doctor_flow.rate_limit,
    doctor_flow.processing_trigger,
    doctor_flow.retention,
    doctor_settings.without_effect,
    doctor_settings.metrics,
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
