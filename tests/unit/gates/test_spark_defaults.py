"""Settings that no user set, or that a user set on both releases, are no change of an upgrade."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.gates.change.diff import differences
from airflow_streaming.gates.change.pair import Pair
from airflow_streaming.gates.change.settings import judge_conf, judge_settings
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.gates.spark_defaults import all_defaults, value_of
from airflow_streaming.model.spark.conf import parse_spark_version
from airflow_streaming.model.spark.plan import QueryPlan
from airflow_streaming.model.spark.releases import SUPPORTED, recorded_settings
from tests.corpus.spark_defaults import SESSIONS, changed_defaults
from tests.unit.gates.change import builders as b

Session = Mapping[str, Any]
MEASURED: list[Session] = json.loads(SESSIONS.read_text(encoding="utf-8"))
UPGRADES = [*itertools.combinations(MEASURED, 2)]
upgrades = pytest.mark.parametrize(
    ("old", "new"), UPGRADES, ids=[f"{old['spark']} to {new['spark']}" for old, new in UPGRADES]
)
ISOLATION = "spark.sql.artifact.isolation.enabled"
CODEC = "spark.sql.orc.compression.codec"


def plan_of(session: Session, plan: QueryPlan, **conf: str) -> QueryPlan:
    """Return a plan as a session records it that sets nothing but ``conf``."""
    version = parse_spark_version(session["spark"])[:2]
    defaults = session["defaults"]
    recorded = {key: defaults[key] for key in recorded_settings(version) if key in defaults}
    explicit = {key: value for key, value in conf.items() if defaults.get(key) != value}
    settings = {**session["settings"], **explicit}
    return replace(plan, spark=session["spark"], conf={**plan.conf, **recorded}, settings=settings)


def judged(old: QueryPlan, new: QueryPlan) -> dict[str, GateDecision]:
    pair = Pair(old=old, new=new)
    found = [*judge_conf(pair), *judge_settings(pair)]
    return {about: one.severity for one in found for about in one.about}


def test_every_supported_release_was_measured() -> None:
    measured = [parse_spark_version(session["spark"])[:2] for session in MEASURED]

    assert measured == [release.version for release in SUPPORTED]


@upgrades
@pytest.mark.parametrize("plan", [b.a_stateless(), b.an_aggregation()], ids=["no state", "state"])
def test_an_upgrade_without_settings_of_a_user_has_no_unknown_setting(
    old: Session, new: Session, plan: QueryPlan
) -> None:
    found = judged(plan_of(old, plan), plan_of(new, plan))

    assert [about for about, one in found.items() if one is GateDecision.UNKNOWN] == []
    assert [about for about in found if about.startswith("settings.")] == []


@upgrades
def test_a_value_that_a_user_sets_on_both_releases_is_no_change(old: Session, new: Session) -> None:
    plan = b.an_aggregation()
    for key in sorted({*old["defaults"]} & {*new["defaults"]} - {*plan.conf}):
        for value in (old["defaults"][key], new["defaults"][key]):
            pair = Pair(
                old=plan_of(old, plan, **{key: value}), new=plan_of(new, plan, **{key: value})
            )
            assert [*judge_settings(pair)] == [], (key, value)
            assert [at for at, *_ in differences(pair) if at.startswith("settings.")] == []


@upgrades
def test_a_setting_that_a_user_takes_back_is_a_change_where_its_value_is_another(
    old: Session, new: Session
) -> None:
    plan = b.an_aggregation()
    taken_back = judged(plan_of(old, plan, **{CODEC: "zlib"}), plan_of(new, plan))

    assert taken_back[f"settings.{CODEC}"] is GateDecision.UNKNOWN


def test_isolation_that_a_script_turns_on_is_a_change_without_an_effect() -> None:
    off = plan_of(MEASURED[-1], b.a_stateless())
    on = replace(off, settings={})

    assert judged(off, on) == {f"settings.{ISOLATION}": GateDecision.ALLOWED}
    assert [at for at, *_ in differences(Pair(old=off, new=on))] == [f"settings.{ISOLATION}"]


def test_the_table_has_what_was_measured() -> None:
    plan, expected = b.a_stateless(), changed_defaults(MEASURED)

    assert set(all_defaults()) == set(expected)
    for session in MEASURED:
        bare = replace(plan, spark=session["spark"], settings={})
        for key in expected:
            assert value_of(bare, key) == session["defaults"].get(key, value_of(bare, key)), key


@pytest.mark.parametrize(
    ("spark", "key", "value"),
    [
        ("3.5.1", CODEC, "snappy"),
        ("4.0.9", CODEC, "zstd"),
        ("3.3.0", CODEC, None),
        ("of a vendor", CODEC, None),
        ("4.0.9", "spark.sql.unheard.of", None),
    ],
)
def test_the_default_of_a_release_is_of_its_newest_change(
    spark: str, key: str, value: str | None
) -> None:
    assert value_of(replace(b.a_stateless(), spark=spark, settings={}), key) == value
