"""
Steps back from the live deployment: an older Spark, an older script, a setting that is dropped.

A DAG that is older than the live deployment causes each of them by accident. A user accepts each step by
its code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.model.arguments.accepted import DROPPED_CONF, OLDER_SCRIPT, OLDER_SPARK
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.conf import parse_spark_version


def steps_back(
    current: Deployment,
    proposed: Deployment,
    earlier: Sequence[Deployment],
    *,
    of_profile: Collection[str] = (),
    accepted: Collection[str] = (),
) -> Iterator[GateFinding]:
    """
    Yield a finding for each step back that a proposed deployment takes.

    :param earlier: All deployments of the stream, in any order and of both lanes.
    :param of_profile: Settings of the live deployment that come from a profile. A missing profile setting
        counts as a change of the profile.
    :param accepted: Codes that a user accepts.
    """
    if _is_older(proposed.spark_version, current.spark_version):
        yield _finding(
            *(OLDER_SPARK, accepted, "The proposed Spark is older than the live Spark."),
            old=f"{current.spark_version} ({current.runtime})",
            new=f"{proposed.spark_version} ({proposed.runtime})",
        )
    replaced = _replaced_by(current, earlier).get(proposed.application_sha256)
    if replaced is not None:
        yield _finding(
            *(OLDER_SCRIPT, accepted, "The proposed script is older than the live script."),
            old=f"{current.application} ({current.application_sha256[:12]})",
            new=f"{proposed.application} (that of deployment {replaced.number} of "
            f"{replaced.stream}, {replaced.created_at:%Y-%m-%d %H:%M})",
        )
    dropped = sorted(current.conf.keys() - proposed.conf.keys() - set(of_profile))
    if dropped:
        yield _finding(
            *(DROPPED_CONF, accepted, "Settings of the live deployment are dropped."),
            old=", ".join(f"{key}={current.conf[key]}" for key in dropped),
            new="not set",
        )


def _is_older(version: str, than: str) -> bool:
    try:
        return parse_spark_version(version) < parse_spark_version(than)
    except SpecError:
        return False


def _replaced_by(current: Deployment, earlier: Sequence[Deployment]) -> dict[str, Deployment]:
    """Return the first deployment of each script that is older than the live script, by digest."""
    first: dict[str, Deployment] = {}
    for one in sorted((*earlier, current), key=lambda one: one.created_at):
        first.setdefault(one.application_sha256, one)
    live = first[current.application_sha256]
    return {digest: one for digest, one in first.items() if one.created_at < live.created_at}


def _finding(
    code: str, accepted: Collection[str], message: str, *, old: str, new: str
) -> GateFinding:
    is_accepted = code in accepted
    return GateFinding(
        rule=code,
        severity=GateDecision.ALLOWED_WITH_CONSEQUENCE if is_accepted else GateDecision.NOT_ALLOWED,
        message=f"{message} It was accepted." if is_accepted else message,
        old=old,
        new=new,
        evidence="the record of the live deployment",
        remedy=""
        if is_accepted
        else f"Leave the value as it is live, or accept the finding: accept={code}.",
    )
