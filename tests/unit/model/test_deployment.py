"""What a dag asks for is checked, its secrets stay in, and a change of it is seen."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.changes.upgrade.rollback import is_same_code
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.records.deployment import (
    Deployment,
    Override,
    decide_proposal,
    outlives_request,
)
from airflow_streaming.model.spark.conf import check_conf_key, conf_text
from airflow_streaming.model.spark.secret_conf import redact, secret_values
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.spec import StreamSpec
from tests.conf_keys import ODD_KEYS
from tests.unit.supervision.builders import NOW, a_deployment, a_spec

CANARY = "hunter2-canary"

SECRET_KEYS = [
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.azure.account.key.box.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.box.blob.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret",
    "spark.hadoop.google.cloud.auth.service.account.private.key",
    "spark.ssl.keyPassword",
    "spark.ssl.trustStorePASSWORD",
    "spark.my.passwd",
    "spark.my.passphrase",
    "spark.my.api_key",
    "spark.my.apiKey",
    "spark.my.credentials",
    "spark.kafka.sasl.jaas.config",
    "spark.airflowStreaming.sink.kafka.sasl.password",
    "spark.airflowStreaming.sink.kafka.ssl.key.pem",
    "spark.airflowStreaming.sink.otel.headers",
    "spark.authenticate.secret",
    "spark.es.net.http.auth.pass",
    "spark.redis.auth",
    "spark.my.DB_PASS",
    "spark.my.pass",
    "spark.my.passcode",
    "spark.my.db_pwd",
    "spark.my.dbPwd",
    "spark.my.webhook",
    "spark.my.web_hook.url",
    "spark.my.auth.key",
    "spark.my.session.cookie",
    "spark.eventhubs.connectionString",
    "spark.my.connection_string",
    "spark.executorEnv.SENTRY_DSN",
    "spark.my.dsn",
    "spark.my.licenseKey",
    "spark.my.license_key",
    "spark.my.hmac",
    "spark.my.hmacKey",
    "spark.my.signature",
]
PLAIN_KEYS = [
    "spark.master",
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "spark.authenticate",
    "spark.es.net.http.auth.user",
    "spark.my.passes",
    "spark.my.bypass.cache",
    "spark.sql.compass",
]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "Stream '' has no name. Give it as a text."),
        ({"name": None}, "name of a stream is None; give a text."),
        ({"name": "or/ders"}, "Stream name 'or/ders' cannot be used for folders. Use 1 to 86 "),
        ({"name": "a."}, "Stream name 'a.' cannot be used for folders. Use 1 to 86 "),
        ({"name": "a" * 87}, f"Stream name '{'a' * 87}' cannot be used for folders. Use 1 to 86 "),
        (
            {"application": "  "},
            "Stream 'orders' has neither an application nor a pipeline. Give one of them.",
        ),
        (
            {"application": ""},
            "Stream 'orders' has neither an application nor a pipeline. Give one of them.",
        ),
        ({"pipeline": "p.yml"}, "Stream 'orders' has both an application and a pipeline."),
        ({"application": "p.yml"}, "application of stream 'orders' is 'p.yml', the file of a decl"),
        (
            {"application": "", "pipeline": "p.py"},
            "pipeline of stream 'orders' is 'p.py'. Give the",
        ),
        (
            {"application": "", "pipeline": "p.yml", "standby": True},
            "Stream 'orders' has both a pipeline and standby.",
        ),
        (
            {"application": "", "pipeline": "p.yml", "application_args": ["--fast"]},
            "A pipeline does not take the arguments ('--fast',).",
        ),
        ({"application": Path("jobs/orders.py")}, "application of stream 'orders' is of type"),
        ({"runtime": ""}, "Stream 'orders' has no runtime. Give it as a text."),
        ({"home": ""}, "Stream 'orders' has no home. Give it as a text."),
        ({"home": "streams"}, "The home 'streams' is relative."),
        ({"output": "s3://bucket/../x"}, "The output 's3://bucket/../x' has '..' in it."),
        ({"checkpoint": "checkpoints"}, "The checkpoint 'checkpoints' is relative."),
        ({"application_args": "--fast"}, "application_args of stream 'orders' is '--fast'; give"),
        ({"application_args": [5]}, "application_args[0] of stream 'orders' is 5; give a text."),
        ({"application_args": ["a\0"]}, "application_args[0] of stream 'orders' has a NUL"),
        ({"py_files": "lib.py"}, "py_files of stream 'orders' is 'lib.py'; give a list of"),
        ({"jars": [Path("a.jar")]}, "jars[0] of stream 'orders' is of type PosixPath; give"),
        ({"packages": "a:b:1"}, "packages of stream 'orders' is 'a:b:1'; give a list"),
        ({"files": "x"}, "files of stream 'orders' is 'x'; give a list of texts."),
        ({"conf": {"master": "local"}}, "'master' is not a Spark configuration key; it must begin"),
        ({"conf": {"spark.": "1"}}, "'spark.' is not a Spark configuration key; it must begin"),
        ({"conf": {"spark.a b": "1"}}, "The Spark configuration key 'spark.a b' has ' ' in it"),
        ({"conf": {"spark.a=b": "1"}}, "The Spark configuration key 'spark.a=b' has '=' in it"),
        ({"conf": {"spark.a\nb": "1"}}, "The Spark configuration key 'spark.a\\nb' has '\\n' in"),
        ({"conf": {"spark.a\u2003b": "1"}}, "The Spark configuration key 'spark.a\\u2003b' has"),
        ({"conf": {"spark.{{ a }}": "1"}}, "The Spark configuration key 'spark.{{ a }}' is a tem"),
        ({"conf": {"spark.{%a%}": "1"}}, "The Spark configuration key 'spark.{%a%}' is a templ"),
        ({"conf": {"spark.app.name": "x"}}, "'spark.app.name' is set by the provider. Remove it"),
        ({"conf": {"spark.submit.deployMode": "x"}}, "'spark.submit.deployMode' is set by the"),
        ({"conf": {"spark.a": None}}, "conf['spark.a'] of stream 'orders' is None; give a"),
        ({"conf": {"spark.a": ["1"]}}, "conf['spark.a'] of stream 'orders' is of type list;"),
        ({"conf": {"spark.a": "\0"}}, "conf['spark.a'] of stream 'orders' has a NUL"),
        ({"env": {"A=B": "x"}}, "'A=B' in env of stream 'orders' is not a valid variable name."),
        ({"env": {"": "x"}}, "'' in env of stream 'orders' is not a valid variable name."),
        ({"env": {"A": 1}}, "env['A'] of stream 'orders' is of type int; give a text."),
        ({"env": {"A": "x\0"}}, "env['A'] of stream 'orders' has a NUL character in it"),
        ({"stop_grace": timedelta(seconds=-1)}, "stop_grace of stream 'orders' is -1 s; give"),
        ({"stop_grace": timedelta(days=2)}, "stop_grace of stream 'orders' is 2 d; give a time"),
        ({"stop_grace": 60}, "stop_grace of stream 'orders' is 60; give"),
        ({"lease": 60}, "lease of stream 'orders' is 60; give a timedelta"),
        ({"health": "strict"}, "health of stream 'orders' is 'strict'; give"),
        ({"restart": 3}, "restart of stream 'orders' is 3; give"),
        ({"fair_pools": "yes"}, "fair_pools of stream 'orders' is 'yes'; give"),
        ({"conf": None}, "conf of stream 'orders' is None; give a mapping"),
        ({"env": "x"}, "env of stream 'orders' is of type str; give a mapping"),
        ({"jars": 5}, "jars of stream 'orders' is 5; give a list of texts."),
        ({"jars": None}, "jars of stream 'orders' is None; give a list of texts."),
        ({"output": 5}, "output of stream 'orders' is 5; give a text or None."),
        ({"autoscale": True}, "autoscale of stream 'orders' is True; give Autoscale(...)"),
        ({"standby": "yes"}, "standby of stream 'orders' is 'yes'; give True or False"),
        ({"lease": timedelta(seconds=3)}, "lease of stream 'orders' is 3 s; give a time from"),
        ({"on_lost_host": "panic"}, "on_lost_host of stream 'orders' is 'panic'; give ask"),
        ({"launcher": None}, "launcher of stream 'orders' is None; give a text."),
        (
            {"launcher": " local "},
            "launcher of stream 'orders' is ' local '; did you mean 'local'?",
        ),
        ({"launcher": "a/b"}, "launcher of stream 'orders' is 'a/b', which is no name. Use 1 to"),
        ({"launcher": "Local"}, "launcher of stream 'orders' is 'Local'; did you mean 'local'?"),
        ({"launcher": "apache_operator"}, "launcher of stream 'orders' is 'apache_operator'; did"),
        ({"runtime": "a b"}, "runtime of stream 'orders' is 'a b', which is no name. Use 1 to"),
        ({"runtime": "/opt/spark"}, "runtime of stream 'orders' is '/opt/spark', which is no n"),
        ({"output": "/srv/\udc80"}, "output of stream 'orders' has an invalid character"),
    ],
)
def test_a_spec_that_cannot_run_is_refused_with_a_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        a_spec(**changes)

    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"application_args": ["--sql", '{"a": {output}}'], "py_files": ["a.zip"]},
        {"conf": {"spark.a": 1, "spark.b-c_D.e": True, "spark.f": 0.5, "spark.g": ""}},
        {"env": {"_A1": "", "TZ": "UTC"}},
        {"output": "s3://bucket/out", "checkpoint": "s3a://bucket/check"},
        {"output": "", "checkpoint": None},
        {"stop_grace": timedelta(0)},
        {"name": "a" * 86, "standby": True},
        {"conf": dict.fromkeys(ODD_KEYS, "1")},
        {"launcher": "local"},
        {"launcher": "my.cloud-1_b"},
    ],
    ids=str,
)
def test_a_spec_that_can_run_passes(changes: dict[str, Any]) -> None:
    a_spec(**changes).check()


@pytest.mark.parametrize("field", ["conf", "env"])
def test_a_refusal_never_repeats_a_value_of_conf_or_env(field: str) -> None:
    keys = {"conf": "spark.hadoop.fs.s3a.secret.key", "env": "AWS_SECRET_ACCESS_KEY"}
    for value in (f"{CANARY}\0", [CANARY]):
        with pytest.raises(SpecError) as refusal:
            a_spec(**{field: {keys[field]: value}}).check()
        assert CANARY not in str(refusal.value)


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_the_value_of_a_secret_key_is_never_shown(key: str) -> None:
    spec = a_spec(conf={key: CANARY, "spark.master": "local[2]"})

    for shown in (repr(spec), str(spec), json.dumps(spec.serialize()), f"{spec}"):
        assert CANARY not in shown
        assert key in shown
        assert "local[2]" in shown
    assert redact(spec.conf)[key] == REDACTED


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_the_value_of_a_plain_key_is_shown(key: str) -> None:
    assert redact({key: "plain"}) == {key: "plain"}


@pytest.mark.parametrize(
    "value",
    [
        f"-Djavax.net.ssl.trustStorePassword={CANARY}",
        f"jdbc:postgresql://host/db?user=a&password={CANARY}",
        f"https://user:{CANARY}@host/path",
        f"https://:{CANARY}@host",
        f"https://box.blob.core.windows.net/a.jar?sv=2024&sig={CANARY}",
        f"https://bucket.s3.amazonaws.com/a.jar?X-Amz-Signature={CANARY}",
        f"-----BEGIN PRIVATE KEY-----\\n{CANARY}",
        f"Authorization=Basic {CANARY}",
        f"jdbc:sqlserver://host;user=a;pwd={CANARY}",
        f"-Dproxy.pass={CANARY}",
        f"jdbc:db2://host/db:user=a;passcode={CANARY};",
        f"redis://host:6379?auth={CANARY}",
        f"-Dauth.key={CANARY}",
        f"-Dazure.sas=sig={CANARY}",
        f"-Dsession.cookie=SESSION={CANARY}",
        f"-Dheader=Bearer {CANARY}",
        f"-XX:OnError=curl -H Authorization:{CANARY} http://host",
        f"https://hooks.slack.com/services/T0/B0/{CANARY}",
        f"https://discord.com/api/webhooks/1/{CANARY}",
        f"https://acme.webhook.office.com/webhookb2/{CANARY}",
        f"jdbc:oracle:thin:scott/{CANARY}@//db:1521/s",
        f"jdbc:oracle:thin:scott/{CANARY}@db:1521:s",
        f'jdbc:oracle:oci:scott/"{CANARY}/@x"@db',
        f"user:{CANARY}@host",
        f"user:{CANARY}@host.example:5432/db",
        f"-Dmy.address=user:{CANARY}@host:9000",
    ],
)
def test_a_value_that_looks_secret_is_not_shown_under_any_key(value: str) -> None:
    shown = redact({"spark.driver.extraJavaOptions": value})

    assert shown == {"spark.driver.extraJavaOptions": REDACTED}


@pytest.mark.parametrize(
    "value",
    [
        "jdbc:oracle:thin:@//db:1521/s",
        "jdbc:oracle:thin:/@wallet_alias",
        "jdbc:oracle:thin:@db:1521/s?x=a@b",
        "registry.example.org/app:1.2@sha256:0123456789abcdef",
        "app:1.2@sha256:0123456789abcdef",
        "host:9093,1@other:9093",
        "1@h1:9093,2@h2:9093",
        "git@github.com:org/repo",
        "mailto:team@example.org",
        "org.example:artifact:1.0@jar",
        "local:///opt/a@2.jar",
        "s3a://bucket/key@2",
        "com.example.Signature",
        "signature",
        "the method signature: (I)V",
        "HMAC-SHA256",
        "connectionStrings",
        "a:b@c d",
    ],
)
def test_a_value_that_only_resembles_a_secret_is_shown(value: str) -> None:
    assert redact({"spark.my.value": value}) == {"spark.my.value": value}
    assert secret_values({"spark.my.value": value}) == frozenset()


def test_no_value_of_the_environment_is_ever_shown() -> None:
    spec = a_spec(env={"HARMLESS": CANARY, "TZ": CANARY})

    assert CANARY not in repr(spec)
    assert spec.serialize()["env"] == {"HARMLESS": REDACTED, "TZ": REDACTED}


@pytest.mark.parametrize("field", ["home", "output", "checkpoint", "application"])
def test_a_password_in_a_uri_is_not_shown_before_it_is_refused(field: str) -> None:
    # A template is checked when it is filled in.
    spec = a_spec(**{field: f"s3://key:{CANARY}/x@bucket/{{{{ ds }}}}"})

    assert CANARY not in repr(spec)
    assert spec.serialize()[field] == f"s3://key:{REDACTED}@bucket/{{{{ ds }}}}"


@pytest.mark.parametrize("field", ["home", "output", "checkpoint"])
def test_a_password_in_a_uri_is_refused_without_being_shown(field: str) -> None:
    with pytest.raises(SpecError, match=f"^The {field} may not carry credentials") as refusal:
        a_spec(**{field: f"s3://key:{CANARY}/x@bucket/streams"})
    assert CANARY not in str(refusal.value)


def test_a_password_in_a_uri_inside_a_list_is_not_shown() -> None:
    spec = a_spec(application_args=["plain", f"https://user:{CANARY}@host/a.jar"])

    assert spec.serialize()["application_args"] == [
        "plain",
        f"https://user:{REDACTED}@host/a.jar",
    ]


@pytest.mark.parametrize("field", ["jars", "files", "py_files"])
@pytest.mark.parametrize(
    "uri",
    [
        f"https://host/a.jar?token={CANARY}",
        f"https://host/a.jar?a=b&X-Amz-Signature={CANARY}",
        f"https://user:{CANARY}@host/a.jar",
    ],
)
def test_a_secret_in_a_uri_that_would_be_an_argument_is_refused(field: str, uri: str) -> None:
    with pytest.raises(SpecError, match=f"^{field} of stream") as refusal:
        a_spec(**{field: [uri]})
    assert CANARY not in str(refusal.value)


def test_a_jar_may_be_called_after_a_token_and_have_a_query() -> None:
    a_spec(jars=["/jars/token-utils.jar", "https://host/a.jar?version=3"]).check()


@settings(max_examples=50, deadline=None, database=None)
@given(
    conf=st.dictionaries(st.sampled_from(SECRET_KEYS), st.just(CANARY), max_size=4),
    env=st.dictionaries(st.sampled_from(["A", "B"]), st.just(CANARY)),
)
def test_no_mix_of_secrets_gets_out(conf: dict[str, str], env: dict[str, str]) -> None:
    assert CANARY not in repr(a_spec(conf=conf, env=env))


def test_the_serialized_spec_has_every_templated_field_and_is_json() -> None:
    shown = a_spec(jars=("a.jar",), conf={"spark.a": True}).serialize()

    assert set(shown) == set(StreamSpec.template_fields)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["conf"] == {"spark.a": "true"}


@pytest.mark.parametrize("field", StreamSpec.template_fields)
def test_a_templated_field_may_be_filled_in_by_a_run_and_must_be_then(field: str) -> None:
    for left in ("{{ params.x }}", "{% if x %}{{ x }}{% endif %}", Result()):
        spec = a_spec(**{field: left})

        assert "Result" not in repr(spec)
        if not isinstance(left, str):
            with pytest.raises(SpecError, match=f"^{field} of "):
                spec.check()


@pytest.mark.parametrize("field", ["launcher", "on_lost_host", "lease", "standby", "stop_grace"])
def test_what_is_not_templated_takes_no_template(field: str) -> None:
    if field != "launcher":
        with pytest.raises(SpecError, match=f"^{field} of stream 'orders' is "):
            a_spec(**{field: "{{ params.x }}"})
    with pytest.raises(SpecError, match=f"^{field} of stream 'orders' is "):
        a_spec(**{field: Result()})


class Result:
    """What a task will have returned, as Airflow hands it to a templated field."""

    def resolve(self, context: object) -> str:
        raise NotImplementedError

    def iter_references(self) -> list[object]:
        return []

    def __repr__(self) -> str:
        return "as a task returns it"


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (4, "4"), (0.5, "0.5"), ("True", "True")]
)
def test_conf_values_are_written_as_spark_reads_them(value: object, text: str) -> None:
    assert conf_text(value) == text


def test_a_good_conf_key_is_returned() -> None:
    assert check_conf_key("spark.sql.shuffle.partitions") == "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("argument", "filled"),
    [
        ("{stream}", "orders"),
        ("{output}/x", "/data/streams/orders/output/000003/x"),
        ("--c={checkpoint}", "--c=/data/streams/orders/checkpoints/000003"),
        ("{home}", "/data/streams"),
        ("v{deployment}", "v3"),
        ("{stream}-{deployment}{deployment}", "orders-33"),
        ('{"stream": {"a": [1]}}', '{"stream": {"a": [1]}}'),
        ('{"to": "{output}"}', '{"to": "/data/streams/orders/output/000003"}'),
        ("{unknown} {} {{stream}} {stream", "{unknown} {} {orders} {stream"),
        ("%s \\1 $HOME", "%s \\1 $HOME"),
    ],
)
def test_placeholders_are_filled_and_other_braces_left_alone(argument: str, filled: str) -> None:
    deployment = a_deployment(application_args=(argument,))

    assert deployment.arguments("/data/streams") == [filled]


@pytest.mark.parametrize(
    ("place", "spelled"),
    [
        ("s3://b/x", "s3a://b/x"),
        ("gcs://b/x", "gs://b/x"),
        ("file:///x", "file:///x"),
        ("/x", "/x"),
    ],
)
def test_a_script_gets_places_as_spark_opens_them(place: str, spelled: str) -> None:
    arguments = ("{output}", "{checkpoint}", "{home}")
    deployment = a_deployment(application_args=arguments, output=place, checkpoint=place)

    assert deployment.arguments(place) == [spelled] * 3


def test_what_a_placeholder_brings_in_is_not_filled_again() -> None:
    deployment = a_deployment(application_args=("{output}",), output="/data/{stream}")

    assert deployment.arguments("/data") == ["/data/{stream}"]


@pytest.mark.parametrize(
    ("replay_from", "filled"),
    [
        pytest.param("", ["", "0"], id="the beginning"),
        pytest.param(
            "2026-01-05T12:00:00.250+00:00",
            ["2026-01-05T12:00:00.250+00:00", "1767614400250"],
            id="a time",
        ),
    ],
)
def test_a_script_is_told_from_when_to_read(replay_from: str, filled: list[str]) -> None:
    arguments = ("{replay_from}", "{replay_from_ms}")
    deployment = a_deployment(application_args=arguments, replay_from=replay_from)
    assert deployment.arguments("/data") == filled


MEANINGFUL: dict[str, Any] = {
    "stream": "orders-2",
    "application": "/elsewhere/orders.py",
    "application_sha256": "cd" * 32,
    "application_args": ("--other",),
    "conf": {"spark.master": "local[4]"},
    "env": ("TZ", "LANG"),
    "py_files": (),
    "py_files_sha256": ("ef" * 32,),
    "jars": ("/jars/b.jar",),
    "packages": (),
    "files": (),
    "runtime": "spark-3.5",
    "spark_version": "3.5.9",
    "fair_pools": True,
    # A proposal carries on the current ones unless the dag names others.
    "checkpoint": "/data/streams/orders/checkpoints/000004",
    "output": "/data/streams/orders/output/000004",
}
INCIDENTAL: dict[str, Any] = {
    "number": 4,
    "created_at": NOW,
    "created_by": "kim",
    # Where it stands and how it began, not what it does.
    "color": "green",
    "replay_from": "2026-11-01T00:00:00+00:00",
    "overrides": (Override(what="runtime", value="spark-4.3", dag="spark-4.2"),),
}


def test_every_field_of_a_deployment_is_either_meaningful_or_incidental() -> None:
    assert set(MEANINGFUL) | set(INCIDENTAL) == {f.name for f in fields(Deployment)}


@pytest.mark.parametrize(("field", "value"), MEANINGFUL.items(), ids=MEANINGFUL.keys())
def test_a_change_that_spark_would_notice_changes_the_fingerprint(field: str, value: Any) -> None:
    running, proposed = a_deployment(), replace(a_deployment(), **{field: value})

    assert proposed.fingerprint != running.fingerprint
    assert proposed.differences(running) == running.differences(proposed) == [field]


@pytest.mark.parametrize(("field", "value"), INCIDENTAL.items(), ids=INCIDENTAL.keys())
def test_a_change_that_only_a_new_number_brings_changes_nothing(field: str, value: Any) -> None:
    running, proposed = a_deployment(), replace(a_deployment(), **{field: value})

    assert proposed.fingerprint == running.fingerprint
    assert proposed.differences(running) == []


@pytest.mark.parametrize(
    ("running", "proposed", "same"),
    [
        pytest.param(("ab",), ("ab",), True, id="the same content"),
        pytest.param(("ab",), ("cd",), False, id="another content at the same path"),
        pytest.param(("ab",), ("",), True, id="not on this host"),
    ],
)
def test_python_files_are_compared_by_content_where_it_is_known(
    running: tuple[str, ...], proposed: tuple[str, ...], same: bool
) -> None:
    old, new = (a_deployment(py_files_sha256=digests) for digests in (running, proposed))

    assert new.has_py_files_of(old) is same
    assert not new.has_py_files_of(replace(old, py_files=("/elsewhere/lib.py",)))
    assert is_same_code(old, new) is same


def test_what_is_not_known_of_python_files_changes_no_fingerprint() -> None:
    unknown = a_deployment(py_files_sha256=("",))

    assert unknown.fingerprint == a_deployment().fingerprint
    assert unknown.differences(a_deployment()) == []


def test_the_fingerprint_survives_the_record_and_the_order_of_the_conf() -> None:
    conf = {"spark.a": "1", "spark.b": "2"}
    written = a_deployment(conf=conf)
    turned = a_deployment(conf=dict(reversed(conf.items())))

    assert Deployment.from_bytes(written.to_bytes()).fingerprint == written.fingerprint
    assert turned.fingerprint == written.fingerprint


def test_all_differences_are_named() -> None:
    assert a_deployment(jars=(), runtime="spark-4.1", number=9).differences(a_deployment()) == [
        "jars",
        "runtime",
    ]


RUNNING: Deployment = a_deployment()
EDITED: Deployment = replace(RUNNING, number=4, application_args=("--other",))


@pytest.mark.parametrize(
    ("current", "proposed", "restart_asked", "action"),
    [
        pytest.param(None, RUNNING, False, "apply", id="the first is applied"),
        pytest.param(RUNNING, replace(RUNNING, number=4), False, "keep", id="the same stays"),
        pytest.param(RUNNING, replace(RUNNING, number=4), True, "keep", id="even when asked"),
        pytest.param(RUNNING, EDITED, False, "tell", id="an edit is told"),
        pytest.param(RUNNING, EDITED, True, "apply", id="and applied when a person asks"),
    ],
)
def test_only_a_persons_word_replaces_what_runs(
    current: Deployment | None, proposed: Deployment, restart_asked: bool, action: str
) -> None:
    assert decide_proposal(current, proposed, restart_asked=restart_asked) == action


@pytest.mark.parametrize(
    ("run_started_in", "expected"),
    [
        pytest.param(timedelta(seconds=1), False, id="a deployment before the run"),
        pytest.param(timedelta(seconds=-1), True, id="a deployment after its start"),
        pytest.param(None, False, id="a run without a start"),
    ],
)
def test_a_run_asks_to_replace_only_what_was_there_when_it_began(
    run_started_in: timedelta | None, expected: bool
) -> None:
    live = a_deployment()
    begun = None if run_started_in is None else live.created_at + run_started_in
    assert outlives_request(live, begun) is expected
    assert outlives_request(None, begun) is False
