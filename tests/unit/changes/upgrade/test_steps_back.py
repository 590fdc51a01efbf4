"""Steps back from the live deployment, and their acceptance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_streaming.changes.upgrade.steps_back import steps_back
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.arguments.accepted import DROPPED_CONF, OLDER_SCRIPT, OLDER_SPARK
from airflow_streaming.model.records.deployment import Deployment
from tests.unit.home.make import make_deployment

AT = datetime(2026, 3, 1, tzinfo=UTC)
A, B, C = "a" * 64, "b" * 64, "c" * 64


def deployment(number: int, script: str = A, **changes: Any) -> Deployment:
    told = {"spark_version": "4.3.0", "created_at": AT + timedelta(days=number), **changes}
    return make_deployment(number, application_sha256=script, **told)


def codes(current: Deployment, proposed: Deployment, *earlier: Deployment, **how: Any) -> list[str]:
    return [one.rule for one in steps_back(current, proposed, earlier, **how)]


@pytest.mark.parametrize(
    ("live", "new", "found"),
    [
        ("4.3.0", "4.2.1", [OLDER_SPARK]),
        ("4.3.1", "4.3.0", [OLDER_SPARK]),
        ("4.3.0", "4.3.0", []),
        ("4.3.0", "4.10.0", []),
        ("4.3.0", "next", []),
    ],
)
def test_an_older_spark_than_the_live_one_is_a_step_back(
    live: str, new: str, found: list[str]
) -> None:
    assert codes(deployment(1, spark_version=live), deployment(2, spark_version=new)) == found


@pytest.mark.parametrize(
    ("scripts", "proposed", "found"),
    [
        pytest.param([A, B], A, [OLDER_SCRIPT], id="replaced by the live one"),
        pytest.param([A, B, C], A, [OLDER_SCRIPT], id="replaced long ago"),
        pytest.param([A, B], B, [], id="the live one"),
        pytest.param([A, B], C, [], id="new"),
        pytest.param([A, B, A], B, [], id="tried before, and taken back"),
    ],
)
def test_a_script_that_the_live_one_has_replaced_is_a_step_back(
    scripts: list[str], proposed: str, found: list[str]
) -> None:
    known = [deployment(number, script) for number, script in enumerate(scripts, 1)]

    assert codes(known[-1], deployment(9, proposed), *known) == found


def test_a_script_of_the_other_lane_counts_by_its_time() -> None:
    blue = deployment(7, A, created_at=AT)
    green = deployment(1, B, created_at=AT + timedelta(days=1))

    assert codes(green, deployment(2, A), blue) == [OLDER_SCRIPT]
    assert codes(green, deployment(2, A)) == [], "not known here"


@pytest.mark.parametrize(
    ("live", "new", "of_profile", "found"),
    [
        pytest.param({"spark.a": "1"}, {}, (), [DROPPED_CONF], id="dropped"),
        pytest.param({"spark.a": "1"}, {"spark.a": "2"}, (), [], id="changed"),
        pytest.param({}, {"spark.a": "2"}, (), [], id="added"),
        pytest.param({"spark.a": "1"}, {}, ("spark.a",), [], id="of the profile"),
    ],
)
def test_a_live_setting_that_is_dropped_is_a_step_back(
    live: dict[str, str], new: dict[str, str], of_profile: tuple[str, ...], found: list[str]
) -> None:
    told = {"of_profile": of_profile}

    assert codes(deployment(1, conf=live), deployment(2, conf=new), **told) == found


def test_each_step_back_is_refused_until_its_code_is_accepted() -> None:
    live = deployment(2, B, conf={"spark.a": "1"})
    proposed = deployment(3, A, conf={}, spark_version="3.5.9")

    found = list(
        steps_back(live, proposed, [deployment(1, A)], accepted=[OLDER_SPARK, DROPPED_CONF])
    )

    assert {one.rule: one.severity for one in found} == {
        OLDER_SPARK: GateDecision.ALLOWED_WITH_CONSEQUENCE,
        OLDER_SCRIPT: GateDecision.NOT_ALLOWED,
        DROPPED_CONF: GateDecision.ALLOWED_WITH_CONSEQUENCE,
    }
    refused = next(one for one in found if one.severity is GateDecision.NOT_ALLOWED)
    assert f"accept={OLDER_SCRIPT}" in refused.remedy
    assert [one.old for one in found] == [
        f"4.3.0 ({live.runtime})",
        f"{live.application} ({B[:12]})",
        "spark.a=1",
    ]
