"""The class data archive of a runtime: which JVMs are told of it, and what a broken making leaves."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import LaunchError, RuntimeNotFound
from airflow_streaming.launch.class_archive import archive_options, archive_path
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.runtime import OPTIONS_VARIABLE, Runtime
from airflow_streaming.spark_jobs.class_archive import make_archive


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """A Spark whose ``spark-submit`` fails."""
    home = tmp_path / "opt spark"
    (home / "bin").mkdir(parents=True)
    submit = home / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\necho no error at all\nexit 3\n")
    submit.chmod(0o755)
    python = Path("/opt/venv/bin/python")
    return Runtime(
        name="mine", spark_home=home, python=python, java_home=None, spark_version="4.3.0", java=17
    )


def test_a_jvm_is_told_of_the_archive_that_is_there_before_what_the_user_says(
    runtime: Runtime,
) -> None:
    archive_path(runtime).touch()

    given = driver_environment({}, runtime, {OPTIONS_VARIABLE: "-Xshare:off"})[OPTIONS_VARIABLE]

    first, *_, last = shlex.split(given)
    assert first == f"-XX:SharedArchiveFile={archive_path(runtime)}"
    assert last == "-Xshare:off"


def test_without_an_archive_nothing_is_said(runtime: Runtime) -> None:
    assert OPTIONS_VARIABLE not in driver_environment({}, runtime, {})


@pytest.mark.parametrize("java", [0, 8, 11])
def test_a_java_that_knows_no_such_archive_is_told_of_none(runtime: Runtime, java: int) -> None:
    old = replace(runtime, java=java)
    archive_path(old).touch()

    assert archive_options(old) == ""


def test_each_java_has_an_archive_of_its_own(runtime: Runtime) -> None:
    archive_path(runtime).touch()

    assert archive_options(replace(runtime, java=21)) == ""


def test_a_spark_that_fails_leaves_the_archive_as_it_was_and_nothing_beside_it(
    runtime: Runtime,
) -> None:
    archive_path(runtime).write_text("old")
    before = sorted(runtime.spark_home.iterdir())

    with pytest.raises(LaunchError, match="no error at all"):
        make_archive(runtime, seconds=60.0)

    assert archive_path(runtime).read_text() == "old"
    assert sorted(runtime.spark_home.iterdir()) == before


@pytest.mark.parametrize("java", [8, 11])
def test_no_archive_is_made_with_an_old_java(runtime: Runtime, java: int) -> None:
    with pytest.raises(RuntimeNotFound):
        make_archive(replace(runtime, java=java))


def test_no_archive_is_made_beside_a_folder_of_settings(runtime: Runtime) -> None:
    (runtime.spark_home / "conf").mkdir()
    (runtime.spark_home / "conf" / "spark-env.sh").touch()

    with pytest.raises(RuntimeNotFound, match="conf"):
        make_archive(runtime)


@pytest.mark.parametrize("act", ["touch", "ln -s /etc/hostname"])
def test_a_spark_that_ends_well_without_an_archive_is_no_success(
    runtime: Runtime, act: str
) -> None:
    # Its scratch folder is that of its properties file, which is its second argument.
    made = f'{act} "$(dirname "$2")/{archive_path(runtime).name}"'
    runtime.spark_submit.write_text(f"#!/bin/sh\n{made}\n")

    with pytest.raises(LaunchError):
        make_archive(runtime, seconds=60.0)

    assert not archive_path(runtime).exists()


def test_a_folder_in_the_place_of_the_archive_is_named(runtime: Runtime) -> None:
    archive_path(runtime).mkdir()

    with pytest.raises(RuntimeNotFound, match="is a folder"):
        make_archive(runtime)
