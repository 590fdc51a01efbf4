from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.home.servers import S3Server, juicefs, seaweedfs


@pytest.fixture(scope="session")
def exclusive_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def careless_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with juicefs(tmp_path_factory.mktemp("juicefs")) as server:
        yield server
