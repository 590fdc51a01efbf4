"""Pinned settings: what the checkpoint keeps, what an older Spark loses, what is asked in vain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.checkpoint.formats import newer_than
from airflow_streaming.core.checkpoint.report import StoreType
from airflow_streaming.core.checkpoint.written import PINNED_SINCE
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.compatibility.version.case import Case
from airflow_streaming.core.compatibility.version.key_order import PIN

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
    sentence="The older Spark does not know settings that the state of this checkpoint was begun "
    "with and leaves them out of its plans; coming up again, the newer one takes their old values.",
    source=f"{_MEASURED}: a checkpoint of 3.5 has 17 settings with old values after 4.3 has run it, "
    "and 10 after 3.5 has again. So the checkpoint forgets what it was begun with; only what its "
    "operators go by is told",
    remedy="Take a backup before, and go up again from that. Do not go up again with this "
    "checkpoint without a rehearsal.",
)
DOWN_AND_UP: Final = Rule(
    name="version.down_and_up",
    severity=GateDecision.UNKNOWN,
    sentence="The checkpoint was begun by a newer Spark and then run by an older one, which left out "
    "settings that its state was begun with. Now the newer one takes their old values.",
    source=f"{_MEASURED}: what a plan lacks is taken with its old value, whatever earlier plans had; "
    "with five text columns that duplicates are dropped by, 4.3 to 3.5 and up again gave 12 rows "
    "instead of 4",
    remedy="Go up from the backup of before the way down, or rehearse it on a clone of the "
    "checkpoint.",
)
CONF_OVERRIDDEN: Final = Rule(
    name="version.conf_overridden",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="A setting is asked for that the checkpoint has pinned to another value; Spark goes on "
    "with the pinned one, without a word.",
    source=_MEASURED,
    remedy="Leave it out, or begin with a new checkpoint.",
)

RULES: Final = (PINS_KEPT, PINS_LOST, DOWN_AND_UP, CONF_OVERRIDDEN)

_MERGE: Final = _STREAMING + "stateStore.rocksdb.mergeOperatorVersion"
_EVOLUTION: Final = _STREAMING + "queryEvolution.enableSourceEvolution"
_PROTOBUF: Final = _SQL + "function.protobufExtensions.enabled"

OLD_VALUES: Final[Mapping[str, str]] = {
    _STREAMING + "stateStore.encodingFormat": "unsaferow",
    _MERGE: "1",
    _STREAMING + "stateStore.rowChecksum.enabled": "false",
    _EVOLUTION: "false",
    _PROTOBUF: "false",
    _STREAMING + "statefulOperator.alwaysNullableOutput.enabled": "false",
    PIN: "false",
}
"""What Spark takes for a setting that a plan does not have."""


def pins(case: Case) -> Iterator[GateFinding]:
    """Yield what becomes of the pinned settings."""
    if case.goes_down:
        yield from _lost(case)
    elif case.goes_up:
        yield from _down_and_up(case)
        yield from _kept(case)
    yield from _overridden(case)


def _lost(case: Case) -> Iterator[GateFinding]:
    lost = [
        f"{key}={value}"
        for key, value in _of_weight(case, case.checkpoint.conf)
        if newer_than(PINNED_SINCE[key], case.target.name)
    ]
    if lost:
        yield PINS_LOST.found(
            f"Spark {case.target.text} does not know {', '.join(lost)} and leaves it out of its "
            "plans; coming up again, a newer Spark takes the old value.",
            old=", ".join(lost),
            evidence=_WHERE,
        )


def _down_and_up(case: Case) -> Iterator[GateFinding]:
    lost = [
        f"{key}={value}"
        for key, value in _of_weight(case, case.checkpoint.lost_conf)
        if not newer_than(PINNED_SINCE[key], case.target.name)
        # Where the order can be computed, it is judged by what it is.
        and not (key == PIN and case.key_order is not None)
    ]
    if lost:
        yield DOWN_AND_UP.found(
            f"The checkpoint was begun with {', '.join(lost)}; an older Spark has left it out since, "
            f"and Spark {case.target.text} takes the old value.",
            old=", ".join(lost),
            evidence="earlier plans in offsets/, and the newest one",
        )


def _of_weight(case: Case, conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield settings that have not their old values and that the query's operators go by."""
    for key, value in sorted(conf.items()):
        if value.lower() != OLD_VALUES.get(key, value.lower()) and _matters(case, key):
            yield key, value


def _matters(case: Case, key: str) -> bool:
    if key == _PROTOBUF:
        # It decides what a function gives, with state or without.
        return True
    if key == _EVOLUTION:
        return case.checkpoint.offset_log_version == 2
    if key == PIN:
        return case.orders_duplicates
    if key == _MERGE:
        stores = {store.store for each in case.checkpoint.operators for store in each.stores}
        return bool(stores) and stores != {StoreType.HDFS}
    return bool(case.checkpoint.operators)


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
