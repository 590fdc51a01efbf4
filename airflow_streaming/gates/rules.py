"""
Rules of the gates, as data.

A rule has one severity. If the same edit is harmless in one place and harmful in another, there are
two rules, so that a name alone identifies the decision, and a table of the rules is the manual.
Severity, sentence and source of a rule are in ``rules.toml``; its condition is code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from airflow_streaming.gates.findings import GateDecision, GateFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    A rule.

    :param name: Theme and matter, e.g. ``aggregation.window``.
    :param sentence: Its statement in the manual.
    :param source: The evidence: the published recovery semantics, a Spark issue, or a measurement.
    :param remedy: The next step. Every rule of the change gate has one.
    """

    name: str
    severity: GateDecision
    sentence: str
    source: str
    remedy: str = ""

    def found(
        self,
        message: str = "",
        *,
        old: str = "",
        new: str = "",
        evidence: str = "",
        remedy: str = "",
        query: str = "",
        about: Iterable[str] = (),
    ) -> GateFinding:
        """
        Return a finding by this rule.

        :param message: The difference; by default the rule's sentence.
        :param remedy: A remedy for this case; by default the rule's.
        :param about: Places of the plan that it explains.
        """
        return GateFinding(
            rule=self.name,
            severity=self.severity,
            message=message or self.sentence,
            query=query,
            old=old,
            new=new,
            evidence=evidence,
            remedy=remedy or self.remedy,
            about=tuple(about),
        )


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule of ``rules.toml`` by name."""
    text = files("airflow_streaming.gates").joinpath("rules.toml").read_text(encoding="utf-8")
    return {
        name: Rule(
            name=name,
            severity=GateDecision(row["decides"]),
            sentence=row["says"],
            source=row["source"],
            remedy=row.get("remedy", ""),
        )
        for name, row in tomllib.loads(text).items()
    }


def rule_named(name: str) -> Rule:
    """
    Return a rule by its name.

    :raises KeyError: ``rules.toml`` has no such rule.
    """
    return all_rules()[name]
