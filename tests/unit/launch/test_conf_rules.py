"""What the submission reads itself reaches it or is refused, and nothing that contradicts is dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.conf_rules import LaunchSite, check_conf, join_shipped
from airflow_streaming.launch.environment import split_secrets
from airflow_streaming.launch.registry import ON_KUBERNETES
from airflow_streaming.model.spark.launchers import LOCAL, STANDALONE, YARN
from airflow_streaming.model.spark.secret_conf import secret_values

LAUNCHERS = (LOCAL, STANDALONE, YARN, *ON_KUBERNETES)
K8S = "spark.kubernetes"
CANARY = "hunter2-canary"

NAMES: Mapping[str, str] = {
    f"{K8S}.driver.secrets.db-secret": "/etc/secrets",
    f"{K8S}.executor.secrets.db-secret": "/etc/secrets",
    f"{K8S}.driver.secretKeyRef.DB_PASSWORD": "db-secret:password",
    f"{K8S}.executor.secretKeyRef.API_TOKEN": "db-secret:token",
    f"{K8S}.container.image.pullSecrets": "regcred-secret",
    f"{K8S}.driver.volumes.persistentVolumeClaim.secret-vol.mount.path": "/secrets",
    f"{K8S}.driver.volumes.persistentVolumeClaim.secret-vol.options.claimName": "my-secret",
    f"{K8S}.authenticate.driver.oauthTokenFile": "/var/token",
    f"{K8S}.authenticate.driver.mounted.oauthTokenFile": "/var/token",
    f"{K8S}.authenticate.driver.serviceAccountName": "secret-reader",
    f"{K8S}.kerberos.tokenSecret.name": "tokens",
    f"{K8S}.kerberos.tokenSecret.itemKey": "hadoop",
    f"{K8S}.driver.label.token-user": "team",
    f"{K8S}.driver.annotation.vault.hashicorp.com/agent-inject-secret-db": "kv/db",
    f"{K8S}.driver.node.selector.token": "yes",
    f"{K8S}.driver.podTemplateFile": "/opt/secret/pod.yaml",
    f"{K8S}.file.upload.path": "s3a://secret-bucket/up",
    f"{K8S}.driver.container.image": "registry/secret-app:1.2@sha256:0123456789ab",
    f"{K8S}.driverEnv.GOOGLE_APPLICATION_CREDENTIALS": "/etc/secrets/key.json",
    f"{K8S}.driverEnv.AWS_WEB_IDENTITY_TOKEN_FILE": "/var/token",
    "spark.yarn.appMasterEnv.DB_PASSWORD_FILE": "/etc/secrets/db",
    "spark.kerberos.keytab": "/etc/secrets/a.keytab",
    "spark.driver.extraClassPath": "/opt/token-jars/a.jar",
    "spark.pyspark.python": "/opt/tokenizer/bin/python",
    "spark.jars": "s3a://b/token-utils.jar",
    "spark.files": "s3a://b/secrets/a.json",
}


@pytest.mark.parametrize("key", NAMES)
def test_what_refers_to_a_secret_by_its_name_reaches_the_submission(key: str) -> None:
    conf = {key: NAMES[key]}

    assert split_secrets(conf) == (conf, {})
    assert secret_values(conf) == frozenset()


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("value", [f"https://u:{CANARY}@h/x", "ghp_" + "a" * 36])
def test_a_secret_in_the_place_of_a_name_is_hidden_all_the_same(key: str, value: str) -> None:
    assert split_secrets({key: value}) == ({}, {key: value})
    assert secret_values({key: value}) & {value, CANARY}


SITE = LaunchSite(launcher="kubernetes", master="m", namespace="streams", image="spark:4.3")
SITES = {
    launcher: replace(SITE, launcher=launcher)
    if launcher in ON_KUBERNETES
    else LaunchSite(launcher=launcher, master="m")
    for launcher in LAUNCHERS
}
PODS = frozenset(ON_KUBERNETES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{K8S}.driver.annotation.settings", f'{{"password": "{CANARY}"}}'),
        (f"{K8S}.driver.annotation.settings", f"password={CANARY}"),
        (f"{K8S}.driver.service.annotation.settings", f"api_key={CANARY}"),
        (f"{K8S}.driver.label.settings", f"token={CANARY}"),
        (f"{K8S}.driver.volumes.csi.disk.options.password", CANARY),
    ],
)
def test_free_text_and_options_of_volumes_may_give_a_secret_and_are_hidden(
    key: str, value: str
) -> None:
    assert split_secrets({key: value}) == ({}, {key: value})
    assert any(CANARY in secret for secret in secret_values({key: value}))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("key", "value", "refusing"),
    [
        # Secrets that the submission itself reads.
        (f"{K8S}.driverEnv.DB_PASSWORD", CANARY, PODS),
        (f"{K8S}.driverEnv.HARMLESS", f"jdbc:x://u:{CANARY}@h", PODS),
        (f"{K8S}.authenticate.submission.oauthToken", CANARY, PODS),
        (f"{K8S}.authenticate.driver.oauthToken", CANARY, PODS),
        (f"{K8S}.driver.annotation.url", f"https://u:{CANARY}@h", PODS),
        (f"{K8S}.theirs.password", CANARY, PODS),
        ("spark.submit.pyFiles", f"https://h/a.py?sig={CANARY}", {*PODS, STANDALONE}),
        ("spark.jars", f"https://h/a.jar?token={CANARY}", {*PODS, STANDALONE}),
        ("spark.jars.repositories", f"https://u:{CANARY}@h/maven", {*PODS, STANDALONE}),
        ("spark.yarn.appMasterEnv.API_TOKEN", CANARY, set()),
        ("spark.executorEnv.API_TOKEN", CANARY, PODS),
        ("spark.executorEnv.MODE", "x", set()),
        (f"{K8S}.executor.secretKeyRef.API_TOKEN", "mine:token", set()),
        ("spark.hadoop.fs.s3a.secret.key", CANARY, set()),
        *((key, value, set()) for key, value in NAMES.items()),
        # What the provider decides.
        ("spark.master", "m", set()),
        ("spark.master", "local[9]", set(LAUNCHERS)),
        (f"{K8S}.namespace", "streams", set()),
        (f"{K8S}.namespace", "other", PODS),
        (f"{K8S}.driver.pod.name", "mine", PODS),
        (f"{K8S}.executor.podNamePrefix", "mine", PODS),
        (f"{K8S}.container.image", "spark:4.3", set()),
        (f"{K8S}.container.image", "other:1", PODS),
        (f"{K8S}.submission.waitAppCompletion", "False", set()),
        (f"{K8S}.submission.waitAppCompletion", "true", PODS),
        ("spark.driver.supervise", "false", set()),
        ("spark.driver.supervise", "true", set(LAUNCHERS)),
        ("spark.yarn.submit.waitAppCompletion", "true", {YARN}),
        ("spark.yarn.maxAppAttempts", "1", set()),
        ("spark.yarn.maxAppAttempts", "5", {YARN}),
        # What the stream's env gives as well.
        (f"{K8S}.driverEnv.MODE", "x", PODS),
        (f"{K8S}.driver.secretKeyRef.MODE", "a:b", PODS),
        ("spark.yarn.appMasterEnv.MODE", "x", {YARN}),
        (f"{K8S}.driverEnv.OTHER", "x", set()),
    ],
)
def test_what_contradicts_or_would_be_lost_is_refused(
    launcher: str, key: str, value: str, refusing: set[str]
) -> None:
    conf = {key: value}
    if launcher not in refusing:
        check_conf("orders", SITES[launcher], conf, ("MODE",))
        return
    with pytest.raises(SpecError) as refusal:
        check_conf("orders", SITES[launcher], conf, ("MODE",))
    assert key in str(refusal.value)
    assert CANARY not in str(refusal.value)


def test_a_master_that_is_not_known_contradicts_nothing() -> None:
    check_conf("orders", LaunchSite(launcher="local"), {"spark.master": "local[2]"})


IMAGE = f"{K8S}.container.image"


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("image", "conf", "is_enough"),
    [
        ("spark:4.3", {}, True),
        ("", {IMAGE: "spark:4.3"}, True),
        ("", {f"{K8S}.{who}.container.image": "a" for who in ("driver", "executor")}, True),
        ("", {f"{K8S}.driver.container.image": "a"}, False),
        ("", {IMAGE: ""}, False),
        ("", {}, False),
    ],
)
def test_a_pod_needs_an_image(
    launcher: str, image: str, conf: dict[str, str], is_enough: bool
) -> None:
    site = replace(SITES[launcher], image=image)
    if is_enough or launcher not in ON_KUBERNETES:
        check_conf("orders", site, conf)
    else:
        with pytest.raises(SpecError, match=re.escape(IMAGE)):
            check_conf("orders", site, conf)


SECRET_URI = f"https://h/z.py?sig={CANARY}"


@pytest.mark.parametrize(
    ("key", "what", "own", "named", "listed", "kept"),
    [
        ("spark.jars", "jars", ("a",), None, ("a",), None),
        ("spark.jars", "jars", ("a",), "z", ("a", "z"), None),
        ("spark.jars", "jars", ("a", "z"), " z , y,", ("a", "z", "y"), None),
        ("spark.jars", "jars", ("a",), SECRET_URI, (), f"a,{SECRET_URI}"),
        ("spark.files", "files", (), "z", ("z",), None),
        ("spark.jars.packages", "packages", ("a:b:1",), "c:d:2", ("a:b:1", "c:d:2"), None),
        ("spark.submit.pyFiles", "py_files", ("a",), "z", ("a", "z"), None),
        ("spark.submit.pyFiles", "py_files", ("a",), SECRET_URI, (), f"zip,a,{SECRET_URI}"),
    ],
)
def test_the_lists_of_a_stream_and_of_its_conf_are_one(
    key: str, what: str, own: tuple[str, ...], named: str | None, listed: object, kept: str | None
) -> None:
    conf = {"spark.a": "b", **({} if named is None else {key: named})}

    left, lists = join_shipped(conf, {what: own}, "zip")

    assert (lists[what], left.get(key), left["spark.a"]) == (listed, kept, "b")
