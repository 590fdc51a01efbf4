"""
Options of a source: which change nothing, which have a consequence, and which choose other rows.

An option that no table knows is unknown, and has to be rehearsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import SourcePlan

_GUIDE: Final = "Structured Streaming guide, recovery semantics after changes"
_FILES: Final = "Structured Streaming guide, file source"
_KAFKA: Final = "Structured Streaming and Kafka integration guide"

RATE_LIMIT: Final = Rule(
    name="source.rate_limit",
    severity=GateDecision.ALLOWED,
    sentence="Rate limits may be added, changed and removed.",
    source=f"{_GUIDE}; measured",
)
START: Final = Rule(
    name="source.start",
    severity=GateDecision.ALLOWED,
    sentence="Where to start is read for a new checkpoint only; this one goes on where it is.",
    source=_KAFKA,
)
CONNECTION: Final = Rule(
    name="source.connection",
    severity=GateDecision.ALLOWED,
    sentence="How the source is logged in to, and fetched from, is no part of the checkpoint.",
    source=_KAFKA,
)
CLUSTER: Final = Rule(
    name="source.cluster",
    severity=GateDecision.UNKNOWN,
    sentence="Other servers may be the same cluster, or another one whose offsets mean other rows.",
    source=_KAFKA,
    remedy="See to it that they belong to the same cluster; for another one start with a new "
    "checkpoint.",
)
DATA_LOSS: Final = Rule(
    name="source.data_loss",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="From now on the query passes over what its source has lost, without failing.",
    source=f"{_KAFKA}; {_FILES}",
    remedy="Keep the query failing, unless the loss is known and accepted.",
)
DATA_LOSS_GUARDED: Final = Rule(
    name="source.data_loss_guarded",
    severity=GateDecision.ALLOWED,
    sentence="From now on the query fails when its source has lost something.",
    source=f"{_KAFKA}; {_FILES}",
)
READING: Final = Rule(
    name="source.reading",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="What comes from now on is read in another way; what was read before is not read "
    "again.",
    source=_FILES,
)
ISOLATION: Final = Rule(
    name="source.isolation",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="It decides whether rows of transactions that were aborted, or are still open, are "
    "read; what was read before is not read again.",
    source="Apache Kafka, consumer configuration: isolation.level",
    remedy="Keep read_committed where the producers write in transactions.",
)
CHOICE: Final = Rule(
    name="source.choice",
    severity=GateDecision.NOT_ALLOWED,
    sentence="Which files belong to the source must stay the same.",
    source=f"{_GUIDE}: subscribed files",
    remedy="Put the option back, or start with a new checkpoint (blue-green).",
)
CLEANING: Final = Rule(
    name="source.cleaning",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="Files that were read are moved or deleted, or no longer: a batch whose files are "
    "gone cannot be replayed.",
    source=_FILES,
)
RATE_VALUES: Final = Rule(
    name="source.rate_values",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The rate source counts its rows by time and rate: at another rate they come twice "
    "or never.",
    source="Spark's RateStreamProvider: a row's value is computed from second and rate",
    remedy="Keep the rate, or start with a new checkpoint.",
)
OPTION: Final = Rule(
    name="source.option",
    severity=GateDecision.UNKNOWN,
    sentence="What this option does to a source that goes on is not known.",
    source="no rule covers it",
    remedy="Rehearse it.",
)

RULES: Final = (
    RATE_LIMIT,
    START,
    CONNECTION,
    CLUSTER,
    DATA_LOSS,
    DATA_LOSS_GUARDED,
    READING,
    ISOLATION,
    CHOICE,
    CLEANING,
    RATE_VALUES,
    OPTION,
)

_ANY: Final = {
    **dict.fromkeys(
        (
            "maxfilespertrigger",
            "maxbytespertrigger",
            "maxcachedfiles",
            "discardcachedinputratio",
            "maxoffsetspertrigger",
            "minoffsetspertrigger",
            "maxtriggerdelay",
            "maxrecordsperpartition",
            "minpartitions",
        ),
        RATE_LIMIT,
    ),
}
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
    "includeheaders": READING,
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
    old: SourcePlan, new: SourcePlan, who: str, evidence: str
) -> Iterator[GateFinding]:
    """Compare the options of a source, each by its own rule."""
    for key in sorted({*old.options, *new.options} - _SAID_ELSEWHERE):
        was, now = old.options.get(key), new.options.get(key)
        if was == now:
            continue
        rule = _rule(old.source, key)
        if rule is DATA_LOSS and _guards(key, now):
            rule = DATA_LOSS_GUARDED
        yield rule.found(
            f"{who}: option {key} changes. {rule.sentence}",
            old=_text(was),
            new=_text(now),
            evidence=evidence,
        )


def _rule(source: str, key: str) -> Rule:
    of_source = _BY_SOURCE.get(source, {})
    if key in of_source:
        return of_source[key]
    if key in _ANY:
        return _ANY[key]
    if source == "kafka" and key.startswith("kafka."):
        return CONNECTION
    # What is left of a file source are the options of its format.
    return READING if source == "file" else OPTION


def _guards(key: str, value: str | None) -> bool:
    # Not failing is what has to be asked for, with either spelling.
    asked = (value or "").lower()
    return asked != "false" if key == "failondataloss" else asked != "true"


def _text(value: str | None) -> str:
    return "not set" if value is None else value
