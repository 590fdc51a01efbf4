"""The class data archive of a runtime: which JVMs are told of it, and what a broken making leaves."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_streaming.exceptions import LaunchError, RuntimeNotFound
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.java import (
    OPTIONS_VARIABLE,
    archive_options,
    archive_path,
    archives_in,
    find_archive,
)
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.spark_jobs.class_archive import MADE, make_archive


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


def put(runtime: Runtime, text: str = "archive") -> Path:
    path = archive_path(runtime.spark_home, runtime.java, len(text))
    path.write_text(text)
    return path


def test_a_jvm_is_told_of_the_archive_that_is_there_before_what_the_user_says(
    runtime: Runtime,
) -> None:
    archive = put(runtime)

    given = driver_environment({}, runtime, {OPTIONS_VARIABLE: "-Xshare:off"})[OPTIONS_VARIABLE]

    first, *_, last = shlex.split(given)
    assert first == f"-XX:SharedArchiveFile={archive}"
    assert last == "-Xshare:off"


def test_without_an_archive_nothing_is_said(runtime: Runtime) -> None:
    assert OPTIONS_VARIABLE not in driver_environment({}, runtime, {})


@pytest.mark.parametrize("java", [0, 8, 11])
def test_a_java_that_knows_no_such_archive_is_told_of_none(runtime: Runtime, java: int) -> None:
    old = replace(runtime, java=java)
    put(old)

    assert archive_options(old.spark_home, old.java) == ""


def test_each_java_has_an_archive_of_its_own(runtime: Runtime) -> None:
    put(runtime)

    assert archive_options(runtime.spark_home, 21) == ""


def test_a_spark_that_fails_leaves_the_archive_as_it_was_and_nothing_beside_it(
    runtime: Runtime,
) -> None:
    old = put(runtime)
    before = sorted(runtime.spark_home.iterdir())

    with pytest.raises(LaunchError, match="no error at all"):
        make_archive(runtime, seconds=60.0)

    assert old.read_text() == "archive"
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
    made = f'{act} "$(dirname "$2")/{MADE}"'
    runtime.spark_submit.write_text(f"#!/bin/sh\n{made}\n")

    with pytest.raises(LaunchError):
        make_archive(runtime, seconds=60.0)

    assert archives_in(runtime.spark_home, runtime.java) == []


def test_an_archive_that_was_cut_off_is_not_used_because_a_jvm_would_die_of_it(
    runtime: Runtime,
) -> None:
    put(runtime).write_text("arch")

    assert archive_options(runtime.spark_home, runtime.java) == ""


def test_a_new_archive_takes_the_place_of_the_earlier_ones(runtime: Runtime) -> None:
    put(runtime)
    runtime.spark_submit.write_text(f'#!/bin/sh\nprintf new > "$(dirname "$2")/{MADE}"\n')

    made = make_archive(runtime, seconds=60.0)

    assert made.read_text() == "new"
    assert archives_in(runtime.spark_home, runtime.java) == [made]
    assert find_archive(runtime.spark_home, runtime.java) == made
