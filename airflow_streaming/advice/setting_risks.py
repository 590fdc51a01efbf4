"""Risks of settings: metrics, shuffle partitions, pools, pinned values, event logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.advice.examined import (
    NO_DRIVER,
    Advice,
    Facts,
    RiskLevel,
    fine,
    risk,
    unknown,
)
from airflow_streaming.advice.profile_conf import METRICS, SCHEDULER_MODE, SHUFFLE_PARTITIONS
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.spark.conf import configured_cores, parse_spark_version
from airflow_streaming.model.spark.releases import EVENT_LOG_HOLE, is_fixed
from airflow_streaming.model.status import QueryStatus

EVENT_LOG: Final = "spark.eventLog.enabled"
MANY: Final = 4
"""Partitions per core from which the small tasks cost more than they bring."""


def metrics(facts: Facts) -> Iterator[Advice]:
    """Look for streaming metrics that are off."""
    rule, value = "metrics", facts.conf.get(METRICS)
    if value == "true":
        yield fine(rule, "Streaming metrics are on.")
    elif value is None and METRICS in (facts.script or ""):
        yield unknown(rule, f"The script itself mentions {METRICS}; its value cannot be seen.")
    else:
        yield risk(
            rule,
            RiskLevel.LOW,
            "Streaming metrics are off, so no monitoring system sees rates, latency and state.",
            evidence=f"{METRICS} is {value or 'not set, and off by default'}",
            remedy=f"Set {METRICS}=true, or take the production profile.",
        )


def shuffle_partitions(facts: Facts) -> Iterator[Advice]:
    """Look for shuffle partitions of a stateful query far from one to two per core."""
    rule, cores = "shuffle-partitions", _cores(facts)
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    for query in facts.queries:
        latest, text = facts.latest(query), facts.setting(query.name, SHUFFLE_PARTITIONS)
        if latest is None:
            yield unknown(rule, "It has not run a batch yet.", query=query.name)
        elif latest.state_rows is None:
            yield fine(rule, "It keeps no state, so the number may be changed.", query=query.name)
        elif text is None or not text.isdecimal():
            yield unknown(rule, "The number is neither in conf nor read.", query=query.name)
        elif cores is None:
            yield unknown(
                rule,
                f"It has {text} partitions; how many cores it has is not recorded.",
                query=query.name,
                remedy="Give the number of cores with --cores.",
            )
        else:
            yield _judge_partitions(rule, query, int(text), cores)


def _judge_partitions(rule: str, query: QueryStatus, partitions: int, cores: int) -> Advice:
    evidence = f"{partitions} partitions on {cores} cores"
    if partitions > MANY * cores:
        return risk(
            rule,
            RiskLevel.MEDIUM,
            "Every stateful operator has a state store for each of far too many partitions.",
            query=query.name,
            evidence=evidence,
            remedy="The number is pinned in the checkpoint. Rescale the stream with shuffle_partitions "
            "(Spark 4.2 and newer, RocksDB only), or begin a new one with "
            f"{SHUFFLE_PARTITIONS}={cores}.",
        )
    if partitions * 2 < cores:
        return risk(
            rule,
            RiskLevel.MEDIUM,
            "Most cores have nothing to do while state is updated.",
            query=query.name,
            evidence=evidence,
            remedy="The number is pinned in the checkpoint. Give the stream fewer cores, or begin "
            f"a new checkpoint with {SHUFFLE_PARTITIONS}={cores}.",
        )
    return fine(rule, f"{evidence}.", query=query.name)


def _cores(facts: Facts) -> int | None:
    return configured_cores(facts.conf) if facts.cores is None else facts.cores


def fair_scheduling(facts: Facts) -> Iterator[Advice]:
    """Look for several queries that share the cores first come, first served."""
    rule, pools = "fair-scheduling", facts.deployment.fair_pools
    fair = facts.conf.get(SCHEDULER_MODE, "").upper() == "FAIR"
    evidence = (
        f"number of queries {len(facts.queries)}, fair_pools={pools}, {SCHEDULER_MODE}="
        f"{facts.conf.get(SCHEDULER_MODE, 'not set')}"
    )
    if pools and not fair:
        yield risk(
            rule,
            RiskLevel.LOW,
            "The script sets scheduler pools, which have no effect without fair scheduling.",
            evidence=evidence,
            remedy=f"Set {SCHEDULER_MODE}=FAIR, or take the production profile.",
        )
    elif facts.status is None:
        yield unknown(rule, NO_DRIVER)
    elif len(facts.queries) > 1 and not (pools and fair):
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            "A long batch of one query makes all the others wait.",
            evidence=evidence,
            remedy=f"Set fair_pools=True and {SCHEDULER_MODE}=FAIR, or take the production "
            "profile.",
        )
    else:
        yield fine(rule, f"{evidence}.")


def without_effect(facts: Facts) -> Iterator[Advice]:
    """Look for values of the conf that the checkpoint overrules."""
    rule = "conf-without-effect"
    if not facts.queries:
        yield unknown(rule, NO_DRIVER)
    for query in facts.queries:
        pinned = facts.pinned.get(query.name)
        if pinned is None:
            yield unknown(rule, "No offsets could be read in its checkpoint.", query=query.name)
            continue
        wrong = {
            key: pinned[key]
            for key, value in facts.conf.items()
            if key in pinned and pinned[key] != value
        }
        for key, value in sorted(wrong.items()):
            yield risk(
                rule,
                RiskLevel.LOW,
                f"The checkpoint was begun with another {key}, and that one counts.",
                query=query.name,
                evidence=f"in conf {facts.conf[key]}, in the checkpoint {value}",
                remedy="Put the checkpoint's value into conf, or begin a new checkpoint.",
            )
        if not wrong:
            yield fine(rule, "Conf and checkpoint agree.", query=query.name)


def event_log(facts: Facts) -> Iterator[Advice]:
    """Look for a Spark version with a hole that event logs open."""
    rule, version = "event-log", facts.deployment.spark_version
    enabled = facts.conf.get(EVENT_LOG)
    try:
        number = parse_spark_version(version)
    except SpecError as err:
        yield unknown(rule, str(err))
        return
    if is_fixed(EVENT_LOG_HOLE, number[:2], number[2]):
        yield fine(rule, f"Spark {version} reads event logs safely.")
    elif enabled == "true":
        yield risk(
            rule,
            RiskLevel.HIGH,
            f"A history server of this version runs code from a forged event log ({EVENT_LOG_HOLE}).",
            evidence=f"Spark {version} with {EVENT_LOG}=true; fixed in 3.5.7 and 4.0.1",
            remedy="Upgrade Spark, its history server first, or switch event logs off.",
        )
    elif enabled is None:
        yield unknown(
            rule,
            f"Spark {version} has {EVENT_LOG_HOLE}; whether the runtime's own defaults switch event "
            "logs on is not recorded.",
            remedy=f"Look for {EVENT_LOG} in its spark-defaults.conf, or upgrade Spark.",
        )
    else:
        yield fine(rule, "Event logs are off.")
