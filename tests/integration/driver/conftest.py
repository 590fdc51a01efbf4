from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OLDER, find_runtimes
from tests.integration.driver.running import World, build_package, world_in


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("package"))


@pytest.fixture
def world(tmp_path: Path, spark_4_3: Path, package: Path) -> Iterator[World]:
    with world_in(tmp_path, spark_4_3, package) as made:
        yield made


@pytest.fixture(params=["spark-4.3", OLDER])
def world_on_each_spark(
    request: pytest.FixtureRequest, tmp_path: Path, package: Path
) -> Iterator[World]:
    runtime = find_runtimes().get(request.param)
    if runtime is None:
        pytest.skip(f"There is no .runtimes/{request.param}; run 'make setup'.")
    with world_in(tmp_path, runtime, package) as made:
        yield made
