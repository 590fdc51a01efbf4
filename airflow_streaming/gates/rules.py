"""
Rule: one thing that a gate knows, as data.

A rule has one severity. Where the same edit is harmless in one place and harmful in another there
are two rules, so that a name alone says what was decided, and a table of the rules is the manual. What a rule decides,
says and is known from stands in ``rules.toml``; when it applies is code.
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
    One rule.

    :param name: Theme and matter, e.g. ``aggregation.window``.
    :param severity: What it decides.
    :param sentence: What it says, for the manual.
    :param source: Where that is known from: the published recovery semantics, a Spark issue, or a
        measurement.
    :param remedy: What to do next. Every rule of the change gate has one.
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

        :param message: What differs; the rule's own sentence without one.
        :param remedy: A way out that fits this case better than the rule's own.
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
            severity=GateDecision(told["decides"]),
            sentence=told["says"],
            source=told["source"],
            remedy=told.get("remedy", ""),
        )
        for name, told in tomllib.loads(text).items()
    }


def rule_named(name: str) -> Rule:
    """
    Return a rule by its name.

    :raises KeyError: ``rules.toml`` has no such rule.
    """
    return all_rules()[name]
