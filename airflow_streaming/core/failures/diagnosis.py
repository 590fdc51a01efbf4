"""
What sort of failure is it? From a message to a kind, by a table of signs.

Spark wraps errors: a lost connection inside a Python ``foreachBatch`` arrives as a failed stream
around a failed function around the real cause, all in one message. Among signs of the same weight
the one that stands last wins, because causes follow what they caused. Signs have three weights: a
distinctive one (a condition of the state store, an exception of the network) beats a general one (a
missing file), and both beat the fact that user code was running, since most code that talks to a
database fails with the database.

Older releases name no conditions for most of this; their sentences stand in the same table.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.failures.kind import Diagnosis, FailureKind, remedy_for
from airflow_streaming.core.failures.signature import signature
from airflow_streaming.core.failures.signs import WEIGHTS, Sign
from airflow_streaming.core.failures.text import MAX_READ, conditions_in, speech_of

__all__ = ["Diagnosis", "FailureKind", "diagnose", "remedy_for", "signature"]

_UNKNOWN: Final = Diagnosis(
    kind=FailureKind.UNKNOWN, evidence="", remedy=remedy_for(FailureKind.UNKNOWN)
)


def diagnose(
    *, text: str, exception_class: str | None = None, conditions: tuple[str, ...] = ()
) -> Diagnosis:
    """
    Say what sort of failure a message tells of; ``UNKNOWN`` when nothing in it is known.

    :param text: Spark's whole message with the causes and tracebacks in it. The first 200,000
        characters are looked at.
    :param exception_class: The innermost exception's class, where the text may not name it.
    :param conditions: Spark's error conditions, where the text may not name them.
    """
    said = speech_of(text)
    named = [f"[{name}]" for name in conditions if name not in conditions_in(said)]
    # What is known besides the text is no deeper than the text: it stands before it.
    searched = "\n".join([*named, said, f".{exception_class}:" if exception_class else ""])
    whole = text[:MAX_READ]
    for signs in WEIGHTS:
        found = _last([sign for sign in signs if sign.counts_in(whole)], searched)
        if found is not None:
            return found
    return _UNKNOWN


def _last(signs: list[Sign], text: str) -> Diagnosis | None:
    best, evidence, place = None, "", -1
    for sign in signs:
        for phrase in sign.phrases:
            at = text.rfind(phrase)
            # Ends are compared, so that of two phrases of which one ends the other the longer
            # stays.
            if at >= 0 and at + len(phrase) > place:
                best, evidence, place = sign, phrase, at + len(phrase)
    if best is None:
        return None
    return Diagnosis(
        kind=best.kind, evidence=evidence.strip("[]: "), remedy=best.remedy or remedy_for(best.kind)
    )
