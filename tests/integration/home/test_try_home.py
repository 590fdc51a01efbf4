"""The probe of ``airflow-streaming check`` on real S3 servers: one honors conditional writes, one ignores them."""

from __future__ import annotations

from functools import partial

import fsspec.config
import pytest

from airflow_streaming.advice.installation.installation_checks import SKEW_SECONDS
from airflow_streaming.advice.installation.installation_probes import try_home
from airflow_streaming.home.home import init_home, open_home
from tests.integration.home.servers import S3Server


def test_a_home_on_s3_is_in_order(exclusive_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "s3://streams/checked"
    init_home(uri, exclusive_s3.options)
    use_for_s3(exclusive_s3, monkeypatch)

    found = try_home(uri, partial(open_home, storage_options=exclusive_s3.options))

    assert (found.problem, found.flaw, found.is_made) == ("", "", True)
    assert found.latency_ms is not None
    assert found.skew_s is not None
    assert abs(found.skew_s) < SKEW_SECONDS


def test_a_store_that_ignores_conditional_writes_is_named(
    careless_s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_for_s3(careless_s3, monkeypatch)
    options = careless_s3.options

    found = try_home("s3://streams/checked", partial(open_home, storage_options=options))

    assert found.problem == ""
    assert "writers create the same file" in found.flaw


def use_for_s3(server: S3Server, patch: pytest.MonkeyPatch) -> None:
    """Give every client of S3 the options of a server, as the environment of a command does."""
    patch.setitem(fsspec.config.conf, "s3", server.options)
