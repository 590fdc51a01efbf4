"""Verdict and findings to the state of every rule, for metrics systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_streaming.model.health_rules import QUERY_FAILED, Finding, RuleState
from airflow_streaming.model.observation import Verdict

RuleStates = Mapping[tuple[str, str], bool]
"""By rule and query (empty for the driver), whether it fires."""
_OF_DRIVERS: Final = ("hung", "no_executor", "slow", "unreachable")
_OF_QUERIES: Final = (QUERY_FAILED, "slow", "source_unreachable", "stalled")
MOST_STATES: Final = 2_000
"""States of one stream that are exported: a script that names its queries anew makes new ones."""


def rule_states(
    verdict: Verdict, findings: Sequence[Finding], queries: Sequence[str]
) -> RuleStates:
    """
    Return whether each rule fires, the built-in ones among them.

    A rule on sources fires when it fires for one of them. ``pending`` and ``unknown`` do not fire.

    :param findings: The result of every rule on figures.
    :param queries: The names of the driver's queries.
    """
    states = dict.fromkeys(((rule, "") for rule in _OF_DRIVERS), False)
    states |= {(rule, query): False for rule in _OF_QUERIES for query in queries}
    states |= {(one.rule, one.query): False for one in findings}
    firing = (*verdict.findings, *findings)
    states |= {(one.rule, one.query): True for one in firing if one.state is RuleState.FIRING}
    firing_first = sorted(states.items(), key=lambda state: not state[1])
    return dict(firing_first[:MOST_STATES])
