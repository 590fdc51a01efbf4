"""Which settings of Spark a run may change, and that none of their values is code or a place."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_streaming.advice.profile import StateStore, production
from airflow_streaming.advice.profile_conf import resolve
from airflow_streaming.model.arguments.plain_settings import (
    PLAIN,
    TABLE,
    PlainSettings,
    ValueKind,
    why_not_plain,
)

CODE = (
    *("spark.jars", "spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings"),
    *("spark.files", "spark.archives", "spark.submit.pyFiles", "spark.plugins"),
    *("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"),
    *("spark.driver.defaultJavaOptions", "spark.driver.extraClassPath"),
    *("spark.driver.extraLibraryPath", "spark.executor.extraClassPath"),
    *("spark.pyspark.python", "spark.pyspark.driver.python", "spark.executorEnv.PYTHONSTARTUP"),
    *("spark.extraListeners", "spark.sql.streaming.streamingQueryListeners"),
    *("spark.sql.queryExecutionListeners", "spark.sql.extensions", "spark.sql.catalog.mine"),
    *("spark.sql.catalogImplementation", "spark.sql.warehouse.dir"),
    *("spark.sql.hive.metastore.jars", "spark.sql.hive.metastore.jars.path"),
    *("spark.sql.streaming.checkpointLocation", "spark.sql.streaming.checkpointFileManagerClass"),
    *("spark.sql.streaming.commitProtocolClass", "spark.sql.sources.commitProtocolClass"),
    *("spark.sql.streaming.stateStore.encodingFormat", "spark.sql.execution.pyspark.python"),
    *(
        "spark.sql.execution.pyspark.driver.python",
        "spark.sql.artifact.copyFromLocalToFs.allowDestLocal",
    ),
    *("spark.kubernetes.driver.podTemplateFile", "spark.kubernetes.executor.podTemplateFile"),
    *(
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.container.image",
    ),
    *("spark.kubernetes.driver.volumes.hostPath.root.options.path", "spark.kubernetes.namespace"),
    *("spark.master", "spark.submit.deployMode", "spark.driver.host", "spark.metrics.conf"),
    *("spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.evil.impl", "spark.eventLog.dir"),
    *("spark.local.dir", "spark.redaction.regex", "spark.authenticate", "spark.ui.filters"),
    *("spark.serializer.objectStreamReset", "spark.kryo.registrator", "spark.closure.serializer"),
    *("spark.shuffle.manager", "spark.metrics.namespace", "spark.yarn.dist.archives"),
    *("spark.resources.discoveryPlugin", "spark.worker.resource.gpu.discoveryScript"),
    *("spark.executor.resource.gpu.discoveryScript", "spark.security.credentials.hive.enabled"),
)


@pytest.mark.parametrize("key", CODE)
def test_a_setting_that_can_name_code_or_a_place_is_not_plain(key: str) -> None:
    assert why_not_plain(key, "1")
    assert why_not_plain(key, None)


def test_each_setting_stands_once_and_with_its_reason() -> None:
    keys = Counter(key for row in TABLE for key in row.keys)
    assert [key for key, count in keys.items() if count > 1] == []
    assert all(row.why and (row.kind is None) is bool(row.words) for row in TABLE)


@pytest.mark.parametrize("spark", ["3.5.9", "4.3.0"])
@pytest.mark.parametrize("store", list(StateStore))
def test_the_profile_of_the_docs_can_be_typed(spark: str, store: StateStore) -> None:
    profile = production(cores=8, state_store=store)
    for one in resolve(profile, spark, {}):
        assert why_not_plain(one.key, one.value) == "", one.key


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("spark.executor.instances", "4", "4;id"),
        ("spark.driver.memory", "4g", "4g -XX:OnOutOfMemoryError=id"),
        ("spark.driver.memory", "4GiB", "4g\n"),
        ("spark.memory.fraction", "0.6", "0.6/../x"),
        ("spark.network.timeout", "120s", "120s "),
        ("spark.speculation", "TRUE", "yes"),
        ("spark.kubernetes.executor.request.cores", "500m", "$(id)"),
        ("spark.sql.session.timeZone", "Europe/Berlin", "../../etc/passwd"),
        ("spark.sql.session.timeZone", "UTC", "/etc/localtime"),
        ("spark.sql.session.timeZone", "Etc/GMT+8", "Etc/GMT+8/../x"),
        ("spark.sql.session.timeZone", "EST5EDT", "5"),
        ("spark.sql.session.timeZone", "+02:00", "http://x"),
        ("spark.sql.autoBroadcastJoinThreshold", "-1", "one"),
        ("spark.scheduler.mode", "fair", "evil.Scheduler"),
        ("spark.serializer", "org.apache.spark.serializer.KryoSerializer", "evil.Serializer"),
        ("spark.io.compression.codec", "zstd", "evil.Codec"),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            "evil.Provider",
        ),
    ],
)
def test_a_value_is_matched_as_a_whole(key: str, good: str, bad: str) -> None:
    assert why_not_plain(key, good) == ""
    assert why_not_plain(key, bad)
    assert why_not_plain(key, None) == ""


@pytest.mark.parametrize("row", [row for row in TABLE if row.words], ids=lambda row: row.keys[0])
def test_another_spelling_of_a_class_is_another_class(row: PlainSettings) -> None:
    (key, *_), k_of_kelvin = row.keys, "\u212a"
    for word in row.words:
        assert why_not_plain(key, word) == ""
        assert bool(why_not_plain(key, word.swapcase())) is ("." in word)
        assert "k" not in word or why_not_plain(key, word.replace("k", k_of_kelvin))


def test_no_kind_of_value_takes_what_a_shell_a_path_or_a_class_needs() -> None:
    for kind in ValueKind:
        for text in ("", "/x", "a.b.C", "x y", "$x", "`x`", "a;b", "x\n", "1\n", "-Dx=1", "\u0661"):
            assert kind.pattern.fullmatch(text) is None, (kind, text)
    assert all(PLAIN)
