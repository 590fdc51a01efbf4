"""
Labels of streams, and selectors such as ``team=payments,spark=3.5*,!tier``. Pure.

A selector has the grammar of Kubernetes' label selectors, and ``*`` in a value. Its keys are labels, and facts that
the home records about each stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.observation import VerdictState

FACTS: Final[Mapping[str, str]] = {
    "name": "the stream",
    "dag": "the DAG that owns it",
    "dag_team": "the team of that DAG",
    "tag": "a tag of the DAG that keeps it alive",
    "runtime": "the runtime of its deployment",
    "spark": "the version of that Spark",
    "launcher": "who started its newest driver",
    "state": "its state, as list shows it, e.g. healthy or gave_up",
    "level": "how urgently it needs a user: down, bad, warn, busy, well, off",
    "stateful": "yes or no: one of its queries keeps state",
    "source": "a system or dataset that it reads, e.g. kafka or kafka://broker:9092/orders",
    "sink": "a system or dataset that it writes",
    "downstream_of": "a stream or dataset that it reads, directly or through other streams",
    "upstream_of": "a stream or dataset that it feeds, directly or through other streams",
}
"""Facts of a stream, which no label may be called."""
OF_PLANS: Final = frozenset({"stateful", "source", "sink", "downstream_of", "upstream_of"})
"""Facts that the recorded plans of its queries tell."""
CLOSED: Final[Mapping[str, frozenset[str]]] = {
    "state": frozenset(VerdictState)
    | {"gave_up", "never_run", "off", "restart_overdue", "restarting"},
    "level": frozenset({"down", "bad", "warn", "busy", "well", "off"}),
    "stateful": frozenset({"yes", "no"}),
}
"""All values of some facts: a misspelled one behind ``!=`` would select every stream."""
_ANY_TEXT: Final = frozenset({"tag", "source", "sink", "downstream_of", "upstream_of"})
"""Facts whose values may contain blanks and ``=``, such as paths."""
MOST_LABELS: Final = 32
MOST_TERMS: Final = 32
MOST_CHARACTERS: Final = 2_000
_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
_LABEL: Final = re.compile(_KEY)
_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*-]+")
"""Values of a label, with ``*``."""
_TERM: Final = re.compile(
    rf"""\s*(?: !\s*(?P<missing>{_KEY})
      | (?P<key>{_KEY}) (?: \s*(?P<sign>==|!=|=)\s*(?P<value>[^=,()\s](?:[^,()]*[^,()\s])?)
                          | \s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\) )? )\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_SHOWN: Final = 10

Facts = Mapping[str, Sequence[str]]
"""Values of each fact and label of a stream; a key without a value is missing."""


class Operator(StrEnum):
    """How a term compares."""

    IN = "in"
    NOT_IN = "notin"
    """No value of the key is among the term's; true without the key, as in Kubernetes."""
    EXISTS = "exists"
    DOES_NOT_EXIST = "doesnotexist"


@dataclass(frozen=True, slots=True)
class Term:
    """
    A condition on a label or fact.

    :param values: Values with ``*`` for any text; empty for ``EXISTS`` and ``DOES_NOT_EXIST``.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, facts: Facts) -> bool:
        """Tell whether a stream meets the condition."""
        found = facts.get(self.key, ())
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return bool(found) is (self.operator is Operator.EXISTS)
        return any(map(self.is_like, found)) is (self.operator is Operator.IN)

    def is_like(self, text: str) -> bool:
        """Tell whether a text is one of the values."""
        return any(_is_like(text, pattern) for pattern in self.values)


@dataclass(frozen=True, slots=True)
class Selector:
    """
    Conditions; a stream is selected if it meets all of them.

    :param text: As the user wrote it.
    """

    text: str
    terms: tuple[Term, ...]

    @property
    def keys(self) -> frozenset[str]:
        """Return the facts and labels that the selector asks for."""
        return frozenset(term.key for term in self.terms)

    @property
    def needs_labels(self) -> bool:
        """Tell whether a condition is about a label."""
        return not self.keys <= FACTS.keys()

    @property
    def needs_tags(self) -> bool:
        """Tell whether a condition is about tags of DAGs."""
        return "tag" in self.keys

    def may_be(self, stream: str) -> bool:
        """
        Tell whether a stream must be looked at: it meets the conditions about names, which need no record.

        Every stream must be where others lie behind it, or where its labels show which labels there are.
        """
        if self.needs_plans or self.needs_labels:
            return True
        facts = {"name": (stream,)}
        return all(term.holds(facts) for term in self.terms if term.key == "name")

    @property
    def needs_plans(self) -> bool:
        """Tell whether a condition is about the queries' recorded plans."""
        return bool(self.keys & OF_PLANS)

    def check_labels(self, known: Collection[str]) -> None:
        """
        Refuse a key that is neither a fact nor a label of any stream: a misspelled ``!key`` would select all.

        :param known: Labels that the streams of the home have.
        :raises SpecError: with the labels that there are.
        """
        for key in sorted(self.keys - FACTS.keys() - {*known}):
            labels = [f"{label:.63}" for label in sorted(known)]
            more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
            raise SpecError(
                f"Selector {self.text!r} has the key {key!r}, but no stream of this home has such a label, and "
                f"no fact has this name. Labels: {', '.join(labels[:_SHOWN]) or 'none'}{more}. Facts: {', '.join(FACTS)}."
            )


def parse_selector(text: str) -> Selector:
    """
    Return the selector that a text says.

    :raises SpecError: with the place that could not be read.
    """
    if len(text) > MOST_CHARACTERS:
        raise SpecError(
            f"The selector has {len(text)} characters; at most {MOST_CHARACTERS} are read."
        )
    terms: list[Term] = []
    at, has_more = 0, True
    while has_more:
        found = _TERM.match(text, at)
        if found is None or len(terms) == MOST_TERMS:
            raise SpecError(
                f"Selector {text!r} cannot be read from {text[at:]!r:.80} on. Write at most {MOST_TERMS} "
                "conditions like team=payments, team!=payments, tier in (1, 2), tier notin (3), tier, !tier, "
                "with commas between them."
            )
        terms.append(_term(text, found))
        at, has_more = found.end(), found["end"] == ","
    return Selector(text, tuple(terms))


def check_labels(stream: str, labels: Mapping[str, str]) -> None:
    """
    Check the labels of a stream by the rules of Kubernetes.

    :raises SpecError: with the label and the rule.
    """
    if len(labels) > MOST_LABELS:
        raise SpecError(
            f"Stream {stream!r} has {len(labels)} labels; at most {MOST_LABELS} are kept."
        )
    for key, value in labels.items():
        if key.count("/") > 1:
            raise SpecError(
                f"Label {key!r:.80} of stream {stream!r} has {key.count('/')} slashes; one may separate a prefix "
                "from the name, as in 'example.com/team'."
            )
        if key in FACTS:
            raise SpecError(
                f"Label {key!r} of stream {stream!r} has the name of a fact ({FACTS[key]}). Call it otherwise."
            )
        for what, text, form in ((f"Label {key!r:.80}", key, _LABEL), ("The value", value, _VALUE)):
            if not form.fullmatch(text):
                of = "" if form is _LABEL else f" {value!r:.80} of label {key!r}"
                raise SpecError(
                    f"{what}{of} of stream {stream!r} cannot be used. Use 1 to 63 letters, digits, '.', '_' and "
                    "'-' (a label also '/'), the first and the last one a letter or a digit."
                )


def _term(text: str, found: re.Match[str]) -> Term:
    if found["missing"]:
        return Term(found["missing"], Operator.DOES_NOT_EXIST)
    key = found["key"]
    if found["sign"]:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return _checked(text, Term(key, operator, (found["value"],)))
    if not found["set"]:
        return Term(key, Operator.EXISTS)
    values = tuple(one.strip() for one in found["values"].split(","))
    if not all(values):
        raise SpecError(
            f"Selector {text!r} has an empty value for {key!r}. Name one, or leave the comma out."
        )
    return _checked(text, Term(key, Operator(found["set"]), values))


def _checked(text: str, term: Term) -> Term:
    """
    Return a term whose values the key can have.

    :raises SpecError: with the value, and what the key has.
    """
    known = CLOSED.get(term.key)
    for value in term.values:
        if known is not None and not any(_is_like(one, value) for one in known):
            raise SpecError(
                f"Selector {text!r} compares {term.key!r} with {value!r:.80}, which it never is. It is one of "
                f"{', '.join(sorted(known))}."
            )
        if term.key not in FACTS and not _PATTERN.fullmatch(value):
            raise SpecError(
                f"Selector {text!r} compares label {term.key!r} with {value!r:.80}, which no label can be. Put a comma "
                "between two conditions; a value has letters, digits, '.', '_', '-' and '*' only."
            )
        if term.key not in _ANY_TEXT and {*value} & {*" \t\n\r="}:
            raise SpecError(
                f"Selector {text!r} compares {term.key!r} with {value!r:.80}. Put a comma between two conditions."
            )
    return term


def _is_like(text: str, pattern: str) -> bool:
    # Only * has a meaning: a path may have brackets and question marks.
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))
