"""Every way in which a Spark installation can be wrong, each with its sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.exceptions import RuntimeNotFound
from airflow_streaming.launch.runtime import resolve_runtime


def make_file(path: Path, text: str = "", *, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def make_java(home: Path, version: str = "17.0.15", *, tells: bool = True) -> Path:
    banner = f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"
    make_file(home / "bin" / "java", banner, mode=0o755)
    if tells:
        make_file(home / "release", f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def make_venv(path: Path, *, spark: str = "4.3.0", python: str = "3.11") -> Path:
    package = path / "lib" / f"python{python}" / "site-packages" / "pyspark"
    make_file(package / "version.py", f"__version__: str = '{spark}'\n")
    make_file(package / "jars" / f"spark-core_2.13-{spark}.jar")
    make_file(package / "bin" / "spark-submit", "#!/bin/sh\n", mode=0o755)
    make_file(path / "bin" / "python", "#!/bin/sh\n", mode=0o755)
    make_file(path / "pyvenv.cfg", f"home = /usr/bin\nversion = {python}.4\n")
    return path


def make_spark_home(path: Path, *, spark: str = "3.5.9") -> Path:
    make_file(path / "RELEASE", f"Spark {spark} built for Hadoop 3.3.4\n")
    make_file(path / "jars" / f"spark-core_2.12-{spark}.jar")
    make_file(path / "bin" / "spark-submit", "#!/bin/sh\n", mode=0o755)
    return path


def resolve(folder: Path, value: Any, **environment: str) -> Any:
    environment.setdefault("JAVA_HOME", str(make_java(folder / "jdk")))
    return resolve_runtime("spark", {"spark": value}, environment)


def test_a_virtual_environment_is_a_runtime(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")

    runtime = resolve(tmp_path, str(venv))

    assert runtime.name == "spark"
    assert runtime.spark_version == "4.3.0"
    assert runtime.spark_home == venv / "lib/python3.11/site-packages/pyspark"
    assert runtime.spark_submit == runtime.spark_home / "bin/spark-submit"
    assert runtime.python == venv / "bin/python"
    assert runtime.java_home == tmp_path / "jdk"


def test_a_spark_home_is_a_runtime_with_the_python_of_the_path(tmp_path: Path) -> None:
    python = make_file(tmp_path / "bin" / "python3", "#!/bin/sh\n", mode=0o755)

    runtime = resolve(tmp_path, str(make_spark_home(tmp_path / "spark")), PATH=str(python.parent))

    assert (runtime.spark_version, runtime.spark_home) == ("3.5.9", tmp_path / "spark")
    assert runtime.python == python


def test_python_and_java_can_be_named(tmp_path: Path) -> None:
    python = make_file(tmp_path / "py" / "bin" / "python3.12", "#!/bin/sh\n", mode=0o755)
    java = make_java(tmp_path / "jdk-21", "21.0.2")

    runtime = resolve(
        tmp_path,
        {"path": str(make_venv(tmp_path / "v")), "python": str(python), "java_home": str(java)},
        JAVA_HOME="/nowhere",
    )

    assert (runtime.python, runtime.java_home) == (python, java)


def test_a_version_is_read_from_the_package_when_no_jar_tells_it(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", spark="4.1.4")
    (jar,) = venv.glob("lib/*/site-packages/pyspark/jars/*.jar")
    jar.unlink()

    assert resolve(tmp_path, str(venv)).spark_version == "4.1.4"


@pytest.mark.parametrize(
    ("spark", "java"),
    [
        ("3.5.9", "1.8.0_412"),
        ("3.5.9", "11.0.2"),
        ("3.5.9", "17.0.15"),
        ("4.0.1", "17.0.15"),
        ("4.3.0", "21.0.2"),
        ("4.3.0", "25"),
    ],
)
def test_a_spark_runs_on_its_javas(tmp_path: Path, spark: str, java: str) -> None:
    venv = make_venv(tmp_path / "venv", spark=spark)
    home = make_java(tmp_path / "java", java)

    assert resolve(tmp_path, str(venv), JAVA_HOME=str(home)).spark_version == spark


@pytest.mark.parametrize(
    ("spark", "java", "wanted"),
    [
        ("3.5.9", "21.0.2", "Java 8, 11 or 17"),
        ("4.0.1", "11.0.20", "Java 17 or newer"),
        ("4.3.0", "1.8.0_412", "Java 17 or newer"),
    ],
)
def test_a_wrong_java_is_named_with_where_it_was_found(
    tmp_path: Path, spark: str, java: str, wanted: str
) -> None:
    venv = make_venv(tmp_path / "venv", spark=spark)
    home = make_java(tmp_path / "java", java)

    sentence = re.escape(
        f"Runtime 'spark' has Spark {spark[:3]}, which needs {wanted}; found Java {java} "
        f"(JAVA_HOME {home}). Name another java_home for the runtime."
    )
    with pytest.raises(RuntimeNotFound, match=sentence):
        resolve(tmp_path, str(venv), JAVA_HOME=str(home))


def test_a_java_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    runtime = resolve(
        tmp_path, str(make_venv(tmp_path / "v")), JAVA_HOME="", PATH=str(tmp_path / "bin")
    )

    assert runtime.java_home == home


@pytest.mark.parametrize("source", ["JAVA_HOME", "PATH"])
def test_a_java_that_does_not_tell_its_version_is_asked(tmp_path: Path, source: str) -> None:
    home = make_java(tmp_path / "java", "11.0.1", tells=False)
    environment = {"JAVA_HOME": str(home) if source == "JAVA_HOME" else "", "PATH": f"{home}/bin"}

    with pytest.raises(RuntimeNotFound, match=rf"found Java 11\.0\.1 \(.*{source}"):
        resolve(tmp_path, str(make_venv(tmp_path / "v")), **environment)


def without(pattern: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for path in sorted(folder.glob(pattern)):
            path.rename(folder / "moved-away")

    return remove


def may_not_run(pattern: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.chmod(0o644)

    return change


def is_client_only(folder: Path) -> None:
    # pyspark-client brings the package without bin and jars.
    without("lib/*/site-packages/pyspark/jars")(folder)
    (folder / "moved-away").rename(folder / "jars-moved-away")
    without("lib/*/site-packages/pyspark/bin")(folder)


def java_says_nonsense(folder: Path) -> None:
    make_java(folder.parent / "jdk", "", tells=False)
    (folder.parent / "jdk" / "release").unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        pytest.param(
            is_client_only,
            "Runtime 'spark' at {venv} has pyspark without Spark's jars: that is pyspark-client, "
            "for Spark Connect only. Install pyspark there instead.",
            id="spark_connect_only",
        ),
        pytest.param(
            without("lib/*/site-packages/pyspark/bin/spark-submit"),
            "Runtime 'spark' at {venv} has no spark-submit (expected {home}/bin/spark-submit). "
            "Give a virtual environment with pyspark installed, or a SPARK_HOME.",
            id="spark_submit_missing",
        ),
        pytest.param(
            may_not_run("lib/*/site-packages/pyspark/bin/spark-submit"),
            "Runtime 'spark': {home}/bin/spark-submit may not be executed by this user. "
            "Run 'chmod +x {home}/bin/spark-submit'.",
            id="spark_submit_not_executable",
        ),
        pytest.param(
            without("bin/python"),
            "Runtime 'spark' at {venv} has no Python that can be run ({venv}/bin/python). "
            "Name one as 'python' in its setting.",
            id="python_missing",
        ),
        pytest.param(
            java_says_nonsense,
            "Runtime 'spark' found Java at JAVA_HOME {jdk}, but '{jdk}/bin/java -version' does "
            "not tell its version. Repair that Java or name another java_home.",
            id="java_without_a_version",
        ),
    ],
)
def test_a_broken_installation_is_told(
    tmp_path: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    venv = make_venv(tmp_path / "venv")
    jdk = make_java(tmp_path / "jdk")
    spoil(venv)
    expected = sentence.format(
        venv=venv, home=venv / "lib/python3.11/site-packages/pyspark", jdk=jdk
    )

    with pytest.raises(RuntimeNotFound, match=re.escape(expected)):
        resolve_runtime("spark", {"spark": str(venv)}, {"JAVA_HOME": str(jdk)})


def test_a_spark_home_without_a_version_is_told(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path / "spark")
    without("jars/*.jar")(home)

    with pytest.raises(RuntimeNotFound, match="does not tell its Spark version: jars/ has no"):
        resolve(tmp_path, str(home))


@pytest.mark.parametrize("spark", ["3.4.4", "4.4.0", "5.0.0", "2.4.8"])
def test_a_spark_outside_the_range_is_refused(tmp_path: Path, spark: str) -> None:
    sentence = rf"Runtime 'spark' at .*pyspark has Spark {spark}; this release runs Spark 3\.5 to "

    with pytest.raises(RuntimeNotFound, match=sentence):
        resolve(tmp_path, str(make_venv(tmp_path / "venv", spark=spark)))


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", python="3.9")

    with pytest.raises(
        RuntimeNotFound,
        match=rf"Runtime 'spark' has Python 3\.9 \({venv}/bin/python\); the driver needs "
        r"Python 3\.11 or newer\.",
    ):
        resolve(tmp_path, str(venv))


@pytest.mark.parametrize("told_by", ["name", "lib_folder"])
def test_the_age_of_a_python_outside_a_virtual_environment_is_known(
    tmp_path: Path, told_by: str
) -> None:
    name = "python3.10" if told_by == "name" else "python3"
    python = make_file(tmp_path / "usr" / "bin" / name, "#!/bin/sh\n", mode=0o755)
    if told_by == "lib_folder":
        (tmp_path / "usr" / "lib" / "python3.10").mkdir(parents=True)
    home = make_spark_home(tmp_path / "spark")

    with pytest.raises(RuntimeNotFound, match=r"has Python 3\.10 \("):
        resolve(tmp_path, {"path": str(home), "python": str(python)})


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeNotFound,
        match=rf"Runtime 'spark' is configured at {tmp_path}/none, but this folder does not exist\. "
        r"Correct the path under \[streaming\] runtimes, or create the runtime there\.",
    ):
        resolve(tmp_path, str(tmp_path / "none"))


def test_a_missing_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeNotFound,
        match=r"Runtime 'spark' needs Java and none was found: it names no java_home, JAVA_HOME is "
        r"not set and PATH has no java\. Install Java 17 or name its java_home\.",
    ):
        resolve(tmp_path, str(make_venv(tmp_path / "venv")), JAVA_HOME="", PATH="/nowhere")


def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    value = {"path": str(make_venv(tmp_path / "venv")), "java_home": "/nowhere"}

    with pytest.raises(
        RuntimeNotFound,
        match=r"Runtime 'spark' cannot use java_home /nowhere of the runtime: "
        r"/nowhere/bin/java does not exist\. Set the folder that has bin/java in it\.",
    ):
        resolve(tmp_path, value)


@pytest.mark.parametrize(
    ("table", "known"),
    [({}, "none"), ({"b": "/b", "a": "/a"}, "'a', 'b'")],
    ids=["none_defined", "others_defined"],
)
def test_an_unknown_runtime_is_told_with_the_known_ones(table: dict[str, str], known: str) -> None:
    sentence = re.escape(
        f"Unknown runtime 'spark'; known runtimes: {known}. Define it under [streaming] runtimes "
        'as JSON, e.g. {"spark-4.3": "/opt/spark-4.3"}, with the path of a virtual environment or '
        "a SPARK_HOME."
    )
    with pytest.raises(RuntimeNotFound, match=sentence):
        resolve_runtime("spark", table, {})


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        pytest.param(None, "must be a path, or an object with 'path'", id="null"),
        pytest.param(["/opt/spark"], "found \\['/opt/spark'\\]", id="list"),
        pytest.param({"python": "/usr/bin/python3"}, "must be a path", id="no_path"),
        pytest.param({"path": "/opt/spark", "jvm": "/x"}, "must be a path", id="unknown_key"),
        pytest.param("", "Runtime 'spark' has an empty path", id="empty"),
        pytest.param("spark", "path must be an absolute path, found 'spark'", id="relative"),
        pytest.param({"path": 7}, "path must be an absolute path, found 7", id="number"),
        pytest.param(
            {"path": "/opt/spark", "java_home": "jdk"},
            "java_home must be an absolute path, found 'jdk'",
            id="relative_java_home",
        ),
    ],
)
def test_a_malformed_setting_is_told(tmp_path: Path, value: Any, sentence: str) -> None:
    with pytest.raises(RuntimeNotFound, match=sentence):
        resolve(tmp_path, value)
