"""Pinned settings: what the checkpoint keeps, what an older Spark loses, what is asked in vain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.checkpoint.formats import newer_than
from airflow_streaming.core.checkpoint.written import PINNED_SINCE
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case

_SQL: Final = "spark.sql."
_STREAMING: Final = "spark.sql.streaming."
_MEASURED: Final = "measured: settings pinned in the offset log"
_WHERE: Final = "the checkpoint's newest plan, in offsets/"

PINS_KEPT: Final = Rule(
    name="version.pins_kept",
    severity=GateDecision.ALLOWED,
    sentence="The checkpoint keeps the ways it was begun with; new defaults are for new "
    "checkpoints.",
    source=_MEASURED,
)
PINS_LOST: Final = Rule(
    name="version.pins_lost",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The older Spark does not know settings that the checkpoint was begun with and leaves "
    "them out of its plans; coming up again, the newer one takes their old values.",
    source=f"{_MEASURED}, and trips down and up",
    remedy="Do not go up again with this checkpoint without a rehearsal.",
)
CONF_OVERRIDDEN: Final = Rule(
    name="version.conf_overridden",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A setting is asked for that the checkpoint has pinned to another value; Spark goes on "
    "with the pinned one, without a word.",
    source=_MEASURED,
    remedy="Leave it out, or begin with a new checkpoint.",
)

RULES: Final = (PINS_KEPT, PINS_LOST, CONF_OVERRIDDEN)

OLD_VALUES: Final[Mapping[str, str]] = {
    _STREAMING + "stateStore.encodingFormat": "unsaferow",
    _STREAMING + "stateStore.rocksdb.mergeOperatorVersion": "1",
    _STREAMING + "stateStore.rowChecksum.enabled": "false",
    _STREAMING + "queryEvolution.enableSourceEvolution": "false",
    _SQL + "function.protobufExtensions.enabled": "false",
    _STREAMING + "statefulOperator.alwaysNullableOutput.enabled": "false",
    _SQL + "dropDuplicates.deterministicKeyOrder.enabled": "false",
}
"""What Spark takes for a setting that a plan does not have."""


def pins(case: Case) -> Iterator[GateFinding]:
    """Yield what becomes of the pinned settings."""
    if case.goes_down:
        yield from _lost(case)
    elif case.goes_up:
        yield from _kept(case)
    yield from _overridden(case)


def _lost(case: Case) -> Iterator[GateFinding]:
    lost = [
        f"{key}={value}"
        for key, value in sorted(case.checkpoint.conf.items())
        if newer_than(PINNED_SINCE.get(key), case.target.name)
        and value.lower() != OLD_VALUES.get(key, value.lower())
    ]
    if lost:
        yield PINS_LOST.found(
            f"Spark {case.target.text} does not know {', '.join(lost)} and leaves it out of its "
            "plans; coming up again, a newer Spark takes the old value.",
            old=", ".join(lost),
            evidence=_WHERE,
        )


def _kept(case: Case) -> Iterator[GateFinding]:
    kept = [
        key
        for key, old in OLD_VALUES.items()
        if key not in case.checkpoint.conf
        and newer_than(PINNED_SINCE[key], case.start.name)
        and not newer_than(PINNED_SINCE[key], case.target.name)
    ]
    if kept and case.checkpoint.conf:
        yield PINS_KEPT.found(
            f"The checkpoint keeps the old ways of {', '.join(kept)}.", evidence=_WHERE
        )


def _overridden(case: Case) -> Iterator[GateFinding]:
    for key in sorted(PINNED_SINCE.keys() & case.conf.keys() & case.checkpoint.conf.keys()):
        asked, pinned = case.conf[key], case.checkpoint.conf[key]
        if asked.strip().lower() != pinned.lower():
            yield CONF_OVERRIDDEN.found(
                f"{key}={asked} is asked for, and the checkpoint has {pinned}; Spark goes on with "
                "that, without a word.",
                old=pinned,
                new=asked,
                evidence=_WHERE,
            )
