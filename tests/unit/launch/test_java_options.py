"""Secrets among Java options reach the driver, and never its command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.java import argument_file, check_executor_options, split_options
from tests.unit.world import World

DRIVER = "spark.driver.extraJavaOptions"
EXECUTOR = "spark.executor.extraJavaOptions"
SECRET = "-Djavax.net.ssl.trustStorePassword=canary-4711"


@pytest.mark.parametrize(
    ("options", "left", "secret"),
    [
        pytest.param("-Da=b -Xss4m", "-Da=b -Xss4m", (), id="nothing_secret"),
        pytest.param(SECRET, None, (SECRET,), id="one"),
        pytest.param(f"-Da='b c' {SECRET} -Dd=e", "'-Da=b c' -Dd=e", (SECRET,), id="among_others"),
        pytest.param('-Dx.pass="a b\\"c"', None, ('-Dx.pass=a b"c',), id="in_quotes"),
        pytest.param("-Dp=https://u:pw-pw@h/", None, ("-Dp=https://u:pw-pw@h/",), id="user_info"),
    ],
)
def test_secret_options_are_taken_out(
    options: str, left: str | None, secret: tuple[str, ...]
) -> None:
    conf, found = split_options({DRIVER: options, "spark.a": "1"})

    assert (conf.get(DRIVER), found) == (left, secret)
    assert conf["spark.a"] == "1"


def test_options_that_cannot_be_read_are_refused_without_being_repeated() -> None:
    with pytest.raises(SpecError) as refusal:
        split_options({DRIVER: f"-Da='b {SECRET}"})

    assert DRIVER in str(refusal.value)
    assert "canary" not in str(refusal.value)


@pytest.mark.skipif(shutil.which("java") is None, reason="There is no java.")
def test_java_reads_them_back_and_repeats_none(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    options = (SECRET, '-Dx.pass=a "b"\\c #d')
    file = folder / "000001-00000000.java"
    text, variable = argument_file(options, file)
    file.write_text(text)

    java = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],
        env={"PATH": os.environ["PATH"], "JDK_JAVA_OPTIONS": variable},
        capture_output=True,
        check=True,
        text=True,
    )

    lines = [line.strip() for line in java.stderr.splitlines()]
    assert "javax.net.ssl.trustStorePassword = canary-4711" in lines
    assert 'x.pass = a "b"\\c #d' in lines
    assert "canary" not in next(line for line in lines if line.startswith("NOTE"))


def test_a_launch_has_no_secret_option_on_its_command_line(world: World) -> None:
    world.run(world.operator(conf={DRIVER: f"-Da=b {SECRET}"}, env={"JDK_JAVA_OPTIONS": "-Dx=y"}))

    (request,) = world.launcher.launched
    properties, _, options = request.private_files
    assert options.read_text() == f'"{SECRET}"\n'
    assert options.stat().st_mode & 0o777 == 0o600
    assert request.environment["JDK_JAVA_OPTIONS"] == f'-Dx=y "@{options}"'
    # Spark puts what stands in the file's Java options on the JVM's command line.
    assert f"{DRIVER}=-Da\\=b\n" in properties.read_text()
    assert "canary" not in properties.read_text()


def test_executors_elsewhere_would_show_them_so_they_are_refused() -> None:
    check_executor_options({EXECUTOR: f"-Da=b {SECRET}"}, "local[2]")
    check_executor_options({EXECUTOR: "-Da=b"}, "yarn")
    with pytest.raises(SpecError) as refusal:
        check_executor_options({EXECUTOR: f"-Da=b {SECRET}"}, "yarn")

    assert EXECUTOR in str(refusal.value)
    assert "canary" not in str(refusal.value)
