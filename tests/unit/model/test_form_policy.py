"""What of a run's values is accepted, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.form_policy import RULES, FieldRule, FormPolicy
from airflow_streaming.model.arguments.form_refusals import (
    Refusal,
    RunValue,
    is_at_or_below,
    refusals,
)

NOTHING_LISTED = FormPolicy()


def judged(
    policy: FormPolicy, field: str, value: Any, known: tuple[str, ...] = ()
) -> list[Refusal]:
    given = RunValue(field=field, value=value, source="the template '{{ params.x }}'")
    return refusals(policy, [given], known)


@pytest.mark.parametrize(
    ("field", "value", "option"),
    [
        ("application", "http://evil.example/evil.py", "applications"),
        ("application", "/tmp/evil.py", "applications"),
        ("script", "/tmp/evil.py", "applications"),
        ("conf", {"spark.jars": "/tmp/evil.jar"}, "conf"),
        ("conf", {"spark.driver.memory": "1g -XX:x"}, "conf"),
        ("conf", {"spark.authenticate": None}, "conf"),
        ("conf", "{not json", "fields"),
        ("home", "/tmp/home", "places"),
        ("store", "http://evil.example/", "places"),
        ("checkpoint", "/etc", "places"),
        ("application_args", "--x", "fields"),
        ("env", {"PATH": "/tmp"}, "fields"),
        ("py_files", ["/tmp/evil.zip"], "fields"),
        ("jars", "/tmp/evil.jar", "fields"),
        ("packages", "evil:evil:1", "fields"),
        ("files", "/etc/passwd", "fields"),
        ("conn_id", "other", "fields"),
        ("a_field_of_tomorrow", "x", "fields"),
        ("accept", "rollback.none", "accept"),
        ("accept", "live.older_spark, rollback.replay", "accept"),
        ("accept", ["rollback.replay"], "accept"),
        ("accept", {"rollback.none": True}, "accept"),
    ],
)
def test_a_value_that_may_bring_code_is_refused_with_the_option_that_accepts_it(
    field: str, value: Any, option: str
) -> None:
    (refusal,) = judged(NOTHING_LISTED, field, value)
    assert (refusal.option, refusal.source) == (option, "the template '{{ params.x }}'")
    assert refusal.name.startswith(field)
    assert f"FormPolicy({option}=...)" in str(refusal)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("conf", {"spark.executor.memory": "4g", "spark.sql.shuffle.partitions": 16}),
        ("conf", {"spark.executor.memory": None}),
        ("runtime", "spark-4.3"),
        ("accept", "live.older_spark, live.dropped_conf"),
        ("accept", ["sink_gap"]),
        *((field, empty) for field in RULES for empty in (None, "", " ", "None", "null")),
        *((field, {}) for field in ("conf", "env")),
        *((field, "x") for field, rule in RULES.items() if rule is FieldRule.DATA),
    ],
)
def test_data_and_fields_that_were_left_empty_are_accepted(field: str, value: Any) -> None:
    assert judged(NOTHING_LISTED, field, value) == []


@pytest.mark.parametrize(
    ("policy", "field", "value", "other"),
    [
        ({"accept": ["rollback.replay"]}, "accept", "rollback.replay", "rollback.none"),
        ({"applications": ["s3://b/jobs"]}, "application", "s3://b/jobs/x.py", "s3://b/x.py"),
        ({"places": ["/srv"]}, "home", "/srv/streams", "/etc"),
        ({"runtimes": ["spark-4.3"]}, "runtime", "spark-4.3", "spark-3.5"),
        ({"runtimes": []}, "runtime", "", "spark-3.5"),
        ({"conf": ["spark.jars"]}, "conf", {"spark.jars": "x"}, {"spark.jars.packages": "x"}),
        ({"conf": ["spark.my."]}, "conf", {"spark.my.x": "y"}, {"spark.mine": "y"}),
        ({"fields": ["application_args"]}, "application_args", "--x", None),
        ({"fields": ["application"]}, "application", "http://x/y.py", None),
        ({"fields": ["conf"]}, "conf", {"spark.jars": "x"}, None),
    ],
)
def test_the_author_opens_more(policy: dict[str, Any], field: str, value: Any, other: Any) -> None:
    assert judged(FormPolicy(**policy), field, value) == []
    if other is not None:
        assert len(judged(FormPolicy(**policy), field, other)) == 1


def test_a_script_that_is_known_needs_no_permission_and_no_other_field_profits() -> None:
    assert judged(NOTHING_LISTED, "application", " /srv/a.py ", ("/srv/a.py",)) == []
    assert judged(NOTHING_LISTED, "application", "/srv/b.py", ("/srv/a.py",))
    assert judged(NOTHING_LISTED, "script", "/srv/a.py", ("/srv/a.py",))
    assert judged(NOTHING_LISTED, "home", "/srv/a.py", ("/srv/a.py",))


def test_each_refused_setting_is_named_and_no_secret_repeated() -> None:
    found = judged(
        NOTHING_LISTED,
        "conf",
        {"spark.jars": "/x", "spark.executor.cores": 2, "spark.my.password": "hunter2"},
    )
    assert [one.name for one in found] == ["conf['spark.jars']", "conf['spark.my.password']"]
    assert "hunter2" not in "".join(map(str, found))
    (env,) = judged(NOTHING_LISTED, "env", {"X": "hunter2"})
    assert "hunter2" not in str(env)


@pytest.mark.parametrize(
    ("location", "prefix", "is_below"),
    [
        ("/srv/jobs/x.py", "/srv/jobs", True),
        ("/srv/jobs/x.py", "/srv/jobs/", True),
        ("/srv/jobs/x.py", "/srv/jobs/x.py", True),
        ("/srv//jobs/./x.py", "/srv/jobs", True),
        ("file:///srv/jobs/x.py", "/srv/jobs", True),
        ("file:/srv/jobs/x.py", "/srv/jobs", True),
        ("/srv/jobs/x.py", "/", True),
        ("jobs/x.py", "jobs", True),
        ("./jobs/x.py", "jobs", True),
        ("x.py", ".", True),
        ("/x.py", ".", False),
        ("/srv/jobs-evil/x.py", "/srv/jobs", False),
        ("/srv/jobs/../x.py", "/srv/jobs", False),
        ("/srv/jobs/a/../x.py", "/srv/jobs", False),
        ("../x.py", ".", False),
        ("srv/jobs/x.py", "/srv/jobs", False),
        ("s3://b/jobs/x.py", "s3://b/jobs", True),
        ("S3://b/jobs/x.py", "s3://b/jobs/", True),
        ("s3a://b/jobs/x.py", "s3://b/jobs", False),
        ("s3://b/jobs/../x.py", "s3://b/jobs", False),
        ("s3://bad/x.py", "s3://b", False),
        ("https://good.example@evil.example/x.py", "https://good.example", False),
        ("https://good.example.evil.example/x.py", "https://good.example", False),
        ("https://good.example/%2e%2e/x.py", "https://good.example/", False),
        ("https://good.example\\@evil.example/x.py", "https://good.example", False),
        ("simplecache::https://good.example/x.py", "https://good.example", False),
        ("https://good.example/x.zip::http://evil.example/", "https://good.example", False),
        ("http://evil.example/srv/jobs/x.py", "/srv/jobs", False),
        ("/srv/jobs/x\n.py", "/srv/jobs", False),
    ],
)
def test_a_location_is_below_a_folder_however_it_is_read(
    location: str, prefix: str, is_below: bool
) -> None:
    assert is_at_or_below(location, prefix) is is_below


@pytest.mark.parametrize(
    "wrong",
    [
        {"applications": ["{{ params.x }}"]},
        {"applications": [" "]},
        {"fields": ["applicaton"]},
        {"conf": "spark.jars"},
        {"runtimes": [""]},
    ],
)
def test_a_policy_that_a_run_could_change_or_that_names_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(SpecError):
        FormPolicy(**wrong)


def test_through_which_fields_a_run_may_bring_code() -> None:
    policy = FormPolicy(applications=["/srv"], fields=["conf"])
    assert policy.means_code("application")
    assert policy.means_code("conf")
    assert not NOTHING_LISTED.means_code("application")
    assert not NOTHING_LISTED.means_code("conf")


@pytest.mark.parametrize("code", ["live.older_spark", "rollback", "rollback."])
def test_the_author_opens_codes_of_a_rollback_only(code: str) -> None:
    with pytest.raises(SpecError, match=r"FormPolicy\.accept has .*; give rollback\.replay"):
        FormPolicy(accept=[code])
