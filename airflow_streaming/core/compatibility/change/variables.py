"""
State variables of transformWithState.

In Python they are made while the query runs, so most plans do not show them; the checkpoint does.
Where both are known they are compared, and what Spark relaxes is relaxed: variables may come and
go, and with Avro encoding the schema of one may grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.checkpoint.report import Checkpoint
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule

_ANEW: Final = "Start with a new checkpoint (blue-green), or use a variable of a new name."

ADDED: Final = Rule(
    name="variable.added",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A state variable may be added; it begins empty for every key.",
    source="measured on 4.3: starts",
)
REMOVED: Final = Rule(
    name="variable.removed",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A state variable may be removed; its values are dropped, or come back as they were "
    "when one of that name is added again.",
    source="measured on 4.3: starts",
)
RENAMED: Final = Rule(
    name="variable.renamed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A state variable must keep its name: under another one it begins empty, and what it "
    "held is forgotten.",
    source="measured on 4.3: starts, and later results lack what was kept",
    remedy="Put the old name back, or start with a new checkpoint (blue-green). If it really is "
    "another variable, remove the old one first and add the new one in a second change.",
)
CHANGED: Final = Rule(
    name="variable.changed",
    severity=GateDecision.NOT_ALLOWED,
    sentence="A state variable must keep its sort and its schema.",
    source="measured: STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE, "
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy=_ANEW,
)
EVOLVED: Final = Rule(
    name="variable.evolved",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="With Avro encoding the schema of a state variable may change by Avro's rules: new "
    "fields are null in old values, removed ones are dropped.",
    source="SPARK-50714 and following: state schema evolution with Avro encoding",
    remedy="Rehearse it: a change beyond Avro's rules fails.",
)
NOT_SEEN: Final = Rule(
    name="variable.not_seen",
    severity=GateDecision.UNKNOWN,
    sentence="Which state variables the new code has is decided while it runs, and no plan shows "
    "it.",
    source="transformWithState in Python: variables are made by the processor's init()",
    remedy="Rehearse it: Spark refuses a variable of another sort or schema.",
)

RULES: Final = (ADDED, REMOVED, RENAMED, CHANGED, EVOLVED, NOT_SEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """
    One state variable.

    :param sort: ``value``, ``list`` or ``map``.
    :param schema: As text; empty where it is not known.
    """

    sort: str
    schema: str = ""
    has_ttl: bool = False

    @property
    def plain(self) -> str:
        """Return the schema without regard to spaces and the case of its letters."""
        return " ".join(self.schema.replace(":", " ").split()).lower()

    @property
    def text(self) -> str:
        """Return it for a person."""
        ttl = " with a time to live" if self.has_ttl else ""
        return f"{self.sort} ({self.schema or 'schema not told'}){ttl}"


ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"

_VARIABLE: Final = re.compile(
    r"\s*(?P<sort>\w+) (?P<name>\S+) \((?P<schema>.*)\)(?P<ttl>.*)", re.DOTALL
)


def judge_variables(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare the state variables of an operator by its number."""
    before = variables_in(pair.old.operators[number].state_schema)
    after = variables_in(pair.new.operators[number].state_schema)
    is_whole = bool(before)
    if not before and pair.checkpoint is not None:
        before = variables_of(pair.checkpoint, number)
    evidence = pair.shown_by_state(number)
    if after and before:
        yield from compare_variables(
            before, after, encoding=pair.pinned(ENCODING) or "", evidence=evidence
        )
    if not (after and is_whole) and not pair.same_code:
        yield NOT_SEEN.found(evidence=evidence)


def compare_variables(
    before: Mapping[str, Variable],
    after: Mapping[str, Variable],
    *,
    encoding: str,
    evidence: str,
) -> Iterator[GateFinding]:
    """Compare state variables by name, as far as both are known."""
    renamed = _renamed(before, after)
    for old, new in renamed.items():
        yield RENAMED.found(
            f"State variable {old} is {new} now. {RENAMED.sentence}",
            old=f"{old}: {before[old].text}",
            new=f"{new}: {after[new].text}",
            evidence=evidence,
        )
    for name in sorted({*before, *after} - {*renamed, *renamed.values()}):
        was, now = before.get(name), after.get(name)
        rule = _rule(was, now, encoding)
        if rule is not None:
            yield rule.found(
                f"State variable {name}: {rule.sentence}",
                old=was.text if was else "none",
                new=now.text if now else "none",
                evidence=evidence,
            )


def variables_in(text: str) -> dict[str, Variable]:
    """Return variables by name from a text like ``value total (n bigint); list seen (k string)``."""
    found = {}
    for part in text.split(";"):
        match = _VARIABLE.fullmatch(part.strip())
        if match is not None:
            found[match["name"]] = Variable(
                sort=match["sort"].lower(),
                schema=match["schema"],
                has_ttl=bool(match["ttl"].strip()),
            )
    return found


def variables_of(checkpoint: Checkpoint, number: int) -> dict[str, Variable]:
    """Return the variables that an operator's metadata tells of; without their schemas."""
    found = {}
    for operator in (each for each in checkpoint.operators if each.id == number):
        told = operator.state.get("stateVariables")
        for one in told if isinstance(told, list) else []:
            if isinstance(one, Mapping):
                found[str(one.get("stateName"))] = Variable(
                    sort=str(one.get("stateVariableType")).removesuffix("State").lower(),
                    has_ttl=bool(one.get("ttlEnabled")),
                )
    return found


def _renamed(before: Mapping[str, Variable], after: Mapping[str, Variable]) -> dict[str, str]:
    # One that is gone beside one that is new and alike is taken for the same.
    come = [name for name in after if name not in before]
    found: dict[str, str] = {}
    for name, was in before.items():
        alike = (new for new in come if name not in after and _is_alike(was, after[new]))
        new = next(alike, None)
        if new is not None:
            found[name] = new
            come.remove(new)
    return found


def _is_alike(was: Variable, now: Variable) -> bool:
    same_schema = "" in (was.schema, now.schema) or was.plain == now.plain
    return (was.sort, was.has_ttl) == (now.sort, now.has_ttl) and same_schema


def _rule(was: Variable | None, now: Variable | None, encoding: str) -> Rule | None:
    if was is None:
        return ADDED
    if now is None:
        return REMOVED
    if (was.sort, was.has_ttl) != (now.sort, now.has_ttl):
        return CHANGED
    if "" in (was.schema, now.schema) or was.plain == now.plain:
        return None
    return EVOLVED if encoding.lower() == "avro" else CHANGED
