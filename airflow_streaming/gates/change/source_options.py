"""
Options of a source: which change nothing, which have a consequence, and which choose other rows.

An option that no table knows is unknown, and must be rehearsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.gates.change.pair import Pair, has_endless_state
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.start_checks.defaults import is_default_of_source
from airflow_streaming.model.spark.plan import SourcePlan

RATE_LIMIT: Final = rule_named("source.rate_limit")
RATE_LIMIT_LATE: Final = rule_named("source.rate_limit_late")
START: Final = rule_named("source.start")
CONNECTION: Final = rule_named("source.connection")
CLUSTER: Final = rule_named("source.cluster")
DATA_LOSS: Final = rule_named("source.data_loss")
DATA_LOSS_GUARDED: Final = rule_named("source.data_loss_guarded")
READING: Final = rule_named("source.reading")
READING_BEFORE_ENDLESS: Final = rule_named("source.reading_before_endless_state")
ISOLATION: Final = rule_named("source.isolation")
CHOICE: Final = rule_named("source.choice")
CLEANING: Final = rule_named("source.cleaning")
RATE_VALUES: Final = rule_named("source.rate_values")
DEFAULT: Final = rule_named("source.default")
HEADERS: Final = rule_named("source.headers")
OPTION: Final = rule_named("source.option")
RULES: Final = (
    RATE_LIMIT,
    RATE_LIMIT_LATE,
    START,
    CONNECTION,
    CLUSTER,
    DATA_LOSS,
    DATA_LOSS_GUARDED,
    READING,
    READING_BEFORE_ENDLESS,
    ISOLATION,
    CHOICE,
    CLEANING,
    RATE_VALUES,
    DEFAULT,
    HEADERS,
    OPTION,
)
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_LIMITS: Final = {
    "maxfilespertrigger": _COUNT,
    "maxbytespertrigger": _COUNT,
    "maxcachedfiles": _COUNT,
    "discardcachedinputratio": re.compile(r"0\.[0-9]{1,6}"),
    "maxoffsetspertrigger": _COUNT,
    "minoffsetspertrigger": _COUNT,
    "maxtriggerdelay": re.compile(r"[1-9][0-9]{0,8}\s*(ms|s|m|min|h|d)"),
    "maxrecordsperpartition": _COUNT,
    "minpartitions": _COUNT,
    "numpartitions": _COUNT,
}
"""Rate limits with the values that every Spark accepts; no rule explains other values."""
_BOUNDARIES: Final = frozenset(
    {"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger"}
    | {"maxtriggerdelay"}
)
"""Limits that decide which rows are in one batch."""
_ANY: Final = dict.fromkeys((key for key in _LIMITS if key != "numpartitions"), RATE_LIMIT)
_OF_FILES: Final = {
    **dict.fromkeys(("pathglobfilter", "recursivefilelookup", "filenameonly", "basepath"), CHOICE),
    **dict.fromkeys(("maxfileage", "latestfirst", "modifiedbefore", "modifiedafter"), CHOICE),
    **dict.fromkeys(("cleansource", "sourcearchivedir"), CLEANING),
    **dict.fromkeys(("ignoremissingfiles", "ignorecorruptfiles"), DATA_LOSS),
}
_OF_KAFKA: Final = {
    **dict.fromkeys(
        (
            "startingoffsets",
            "startingtimestamp",
            "startingoffsetsbytimestamp",
            "startingoffsetsbytimestampstrategy",
            "endingoffsets",
            "endingtimestamp",
            "endingoffsetsbytimestamp",
        ),
        START,
    ),
    **dict.fromkeys(
        (
            "groupidprefix",
            "kafkaconsumer.polltimeoutms",
            "fetchoffset.numretries",
            "fetchoffset.retryintervalms",
        ),
        CONNECTION,
    ),
    "kafka.bootstrap.servers": CLUSTER,
    "kafka.isolation.level": ISOLATION,
    "failondataloss": DATA_LOSS,
    "includeheaders": HEADERS,
}
_OF_RATE: Final = {
    **dict.fromkeys(
        ("rowspersecond", "rampuptime", "rowsperbatch", "advancemillisperbatch", "starttimestamp"),
        RATE_VALUES,
    ),
    "numpartitions": RATE_LIMIT,
}
_BY_SOURCE: Final[Mapping[str, Mapping[str, Rule]]] = {
    "file": _OF_FILES,
    "kafka": _OF_KAFKA,
    "rate": _OF_RATE,
    "rate-micro-batch": _OF_RATE,
}
_SAID_ELSEWHERE: Final = frozenset(
    {"path", "paths", "subscribe", "subscribepattern", "assign", "name", "schema", "format"}
)


def judge_options(
    pair: Pair, old: SourcePlan, new: SourcePlan, who: str, at: str
) -> Iterator[GateFinding]:
    """Compare the options of a source, each by its own rule; the source is at a place of the plan."""
    for key in sorted({*old.options, *new.options} - _SAID_ELSEWHERE):
        was, now = old.options.get(key), new.options.get(key)
        if was == now:
            continue
        rule = _rule_of_change(pair, old, key, was, now)
        yield rule.found(
            f"{who}: option {key} changes. {rule.sentence}",
            old=_text(was),
            new=_text(now),
            evidence=f"{at}.options.{key} in {pair.shown_by_plan}",
            about=(f"{at}.options.{key}", *(_columns(at) if rule is HEADERS else ())),
        )


def _columns(at: str) -> tuple[str, str]:
    return f"{at}.schema", f"{at}.nullable"


def _rule_of_change(
    pair: Pair, source: SourcePlan, key: str, was: str | None, now: str | None
) -> Rule:
    kind = source.format if source.source == "file" else source.source
    if all(is_default_of_source(kind, key, value) for value in (was, now)):
        return DEFAULT
    rule = _rule(source.source, key)
    if rule is DATA_LOSS and _guards(key, now):
        return DATA_LOSS_GUARDED
    if rule is RATE_LIMIT and now is not None and not _LIMITS[key].fullmatch(now.strip()):
        return OPTION
    if rule is RATE_LIMIT and key in _BOUNDARIES and _drops_late_rows(pair):
        return RATE_LIMIT_LATE
    if rule is READING and has_endless_state(pair.old):
        return READING_BEFORE_ENDLESS
    return rule


def _drops_late_rows(pair: Pair) -> bool:
    return pair.is_stateful and bool(pair.old.watermarks or pair.new.watermarks)


def _rule(source: str, key: str) -> Rule:
    of_source = _BY_SOURCE.get(source, {})
    if key in of_source:
        return of_source[key]
    if key in _ANY:
        return _ANY[key]
    if source == "kafka" and key.startswith("kafka."):
        return CONNECTION
    # The other options of a file source belong to its format.
    return READING if source == "file" else OPTION


def _guards(key: str, value: str | None) -> bool:
    # Spark fails by default: failOnDataLoss=false or an ignore option with the value true changes that.
    setting = (value or "").lower()
    return setting != "false" if key == "failondataloss" else setting != "true"


def _text(value: str | None) -> str:
    return "not set" if value is None else value
