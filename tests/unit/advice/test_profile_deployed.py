"""A profile becomes part of the deployment, and a kept checkpoint decides what counts of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.advice.profile import Profile, production
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.spec import StreamSpec
from airflow_streaming.supervision.controller import StreamController
from tests.fakes import FakeLauncher

PARTITIONS = "spark.sql.shuffle.partitions"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
METRICS = "spark.sql.streaming.metricsEnabled"
SOURCE = b"print('a stream')\n"
EIGHT = production(cores=8)


class Proposer:
    """Proposes and deploys one stream as a task would, with whatever spec it is given."""

    def __init__(self, home: StreamHome, uri: str) -> None:
        self._home, self._uri = home, uri

    def propose(
        self,
        profile: Profile | None = None,
        spark: str = "4.3.0",
        **spec: Any,
    ) -> Deployment:
        asked = StreamSpec(
            name="orders",
            application="/jobs/orders.py",
            home=self._uri,
            runtime="spark",
            profile=profile,
            **spec,
        )
        asked.check()
        return self._keeper(asked).propose(_runtime(spark), asked.application, SOURCE)

    def deploy(self, profile: Profile | None = None, spark: str = "4.3.0", **spec: Any) -> None:
        self._home.create_deployment(self.propose(profile, spark, **spec), SOURCE)

    def newest(self) -> Deployment:
        newest = self._home.newest_deployment()
        assert newest is not None
        return newest

    def _keeper(self, spec: StreamSpec) -> StreamController:
        def submit(_: Any) -> Any:
            raise AssertionError("A proposal launches nothing.")

        return StreamController(self._home, FakeLauncher(), spec=spec, submit=submit, by="test")


def _runtime(version: str) -> Runtime:
    return Runtime(
        name="spark",
        spark_home=Path("/opt/spark"),
        python=Path("/opt/spark/bin/python"),
        java_home=None,
        spark_version=version,
    )


@pytest.fixture
def stream(tmp_path: Path) -> Proposer:
    return Proposer(open_home(str(tmp_path)).stream("orders"), str(tmp_path))


def test_a_new_stream_gets_the_whole_profile_and_its_own_conf_over_it(stream: Proposer) -> None:
    first = stream.propose(EIGHT, conf={PARTITIONS: 24})

    assert first.conf[PARTITIONS] == "24"
    assert first.conf[FORMAT] == "1"
    assert first.conf[METRICS] == "true"
    assert first.fair_pools


def test_without_a_profile_the_deployment_is_as_it_always_was(stream: Proposer) -> None:
    first = stream.propose(conf={PARTITIONS: 2})

    assert first.conf == {PARTITIONS: "2"}
    assert not first.fair_pools


def test_a_profile_added_to_an_existing_stream_is_a_proposal_that_spares_the_checkpoint(
    stream: Proposer,
) -> None:
    stream.deploy(spark="4.1.4", conf={PARTITIONS: 2})

    proposed = stream.propose(EIGHT, "4.1.4")

    assert proposed.number == 2
    assert proposed.conf[PARTITIONS] == "2"
    assert FORMAT not in proposed.conf
    assert proposed.conf[METRICS] == "true"


def test_an_unchanged_spec_with_a_profile_proposes_nothing_new(stream: Proposer) -> None:
    stream.deploy(conf={PARTITIONS: 2})
    stream.deploy(EIGHT)

    assert stream.propose(EIGHT).differences(stream.newest()) == []
    assert stream.propose(production(cores=8, batches_to_retain=200)).differences(
        stream.newest()
    ) == ["conf"]


def test_an_upgrade_of_spark_keeps_the_format_of_the_checkpoint(stream: Proposer) -> None:
    stream.deploy(EIGHT, "3.5.9")

    assert FORMAT not in stream.propose(EIGHT, "4.1.4").conf


def test_a_new_checkpoint_gets_the_whole_profile(stream: Proposer, tmp_path: Path) -> None:
    stream.deploy(conf={PARTITIONS: 2})

    fresh = stream.propose(EIGHT, checkpoint=str(tmp_path / "elsewhere"))

    assert (fresh.conf[PARTITIONS], fresh.conf[FORMAT]) == ("8", "1")


def test_the_log_says_in_one_line_what_was_taken(
    stream: Proposer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_streaming.supervision.controller")

    stream.propose(EIGHT, conf={PARTITIONS: 24})

    [line] = caplog.messages
    assert line == (
        "Profile 'production' for 8 cores: 11 values from the profile, 1 overridden by the stream. "
        "'airflow-streaming conf' explains each value."
    )


def test_a_secret_of_the_stream_is_not_recorded_with_a_profile_either(stream: Proposer) -> None:
    conf = stream.propose(EIGHT, conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"}).conf

    assert conf["spark.hadoop.fs.s3a.secret.key"] == "(redacted)"
