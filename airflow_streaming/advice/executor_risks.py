"""Risks of executors: fewer than wanted, lost again and again, tasks that fail, idle ones taken away."""

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
from airflow_streaming.advice.profile_conf import DYNAMIC_ALLOCATION

OFTEN: Final = 3
"""Executors lost in an hour: one is a node that went, three are a pattern."""


def executors(facts: Facts) -> Iterator[Advice]:
    """Look for executors that are missing, or that go again and again."""
    rule = "executors"
    if facts.status is None:
        yield unknown(rule, NO_DRIVER)
        return
    seen = facts.status.executors
    if seen is None:
        yield fine(rule, "The driver works without executors of their own, or has reported none.")
        return
    if not seen.missing and seen.lost_last_hour < OFTEN and not seen.failed_tasks:
        yield fine(rule, f"{seen.alive} executors, and no task has failed in this epoch.")
    if seen.missing:
        yield risk(
            rule,
            RiskLevel.HIGH if not seen.alive else RiskLevel.MEDIUM,
            f"{seen.missing} of {seen.wanted} executors are missing.",
            evidence=seen.reason or f"{seen.alive} alive, {seen.wanted} wanted",
            remedy="Find the cause on the cluster: pending pods, a quota, an image, a full "
            "queue. If it cannot give more, rescale the stream to the available "
            "executors.",
        )
    if seen.lost_last_hour >= OFTEN:
        yield risk(
            rule,
            RiskLevel.MEDIUM,
            f"{seen.lost_last_hour} executors were lost in the last hour.",
            evidence=seen.reason or "no reason was reported",
            remedy="With exit code 137 or 'OOMKilled' give executors more memory "
            "(spark.executor.memoryOverhead); on spot nodes use others, or decommissioning "
            "(spark.decommission.enabled).",
        )
    if seen.failed_tasks:
        yield risk(
            rule,
            RiskLevel.LOW,
            f"{seen.failed_tasks} tasks have failed in this epoch.",
            evidence="Spark tries a task spark.task.maxFailures times (4); then the query fails.",
            remedy="See the stage page of the Spark UI for their errors.",
        )


def dynamic_allocation(facts: Facts) -> Iterator[Advice]:
    """Look for dynamic allocation, which takes idle executors away between batches."""
    rule = "dynamic-allocation"
    if facts.conf.get(DYNAMIC_ALLOCATION, "").lower() != "true":
        yield fine(rule, "The stream's configuration does not switch dynamic allocation on.")
        return
    yield risk(
        rule,
        RiskLevel.MEDIUM,
        "Executors that are idle between two batches are taken away, with their state stores.",
        evidence=f"{DYNAMIC_ALLOCATION}=true",
        remedy=f"Set {DYNAMIC_ALLOCATION}=false, and rescale the stream to change its size; or keep "
        "the number it needs with spark.dynamicAllocation.minExecutors.",
    )
