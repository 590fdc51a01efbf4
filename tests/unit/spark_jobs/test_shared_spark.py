"""A Spark that several short jobs use in turn; its JVM is a Python that runs the real host."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import psutil
import pytest

from airflow_streaming.checkpoints.copies import OfCheckpoints
from airflow_streaming.launch.isolation import OFF_VARIABLE
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.jobs.shared import JobEnd
from airflow_streaming.model.jobs.upkeep import ClassLoadingOrder
from airflow_streaming.spark_jobs import rehearsal_compare
from airflow_streaming.spark_jobs import shared_spark as module
from airflow_streaming.spark_jobs.runner import Job, Program, Task, await_end, last_words
from airflow_streaming.spark_jobs.shared_spark import (
    NewSpark,
    SharedSpark,
    needs_of,
    why_new,
)
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE, until

SUBMIT: Final = """\
#!{python}
# Plays spark-submit: the last two arguments are the program and its order.
import os, sys
os.environ["PYTHONPATH"] = "{root}:{fakes}"
os.environ["PYSPARK_GATEWAY_PORT"] = "1"
open("jvm.pid", "w").write(str(os.getpid()))
import subprocess
sys.exit(subprocess.run([sys.executable, *sys.argv[-2:]]).returncode)
"""
PYSPARK: Final = """\
from pathlib import Path

class _Any:
    def __init__(self, name): self._name = name
    def __getattr__(self, name): return _Any(f"{self._name}.{name}")
    def __call__(self, *given):
        with Path(__file__).with_name("asked").open("a") as file: file.write(f"{self._name}\\n")
        return [] if self._name.endswith("stringPropertyNames") else self
    def __bool__(self): return True

class SparkContext:
    _gateway = None
    @classmethod
    def _ensure_initialized(cls): cls._gateway = _Any("gateway")
"""
ENTRY: Final = """\
import os, sys, time
from pathlib import Path
from airflow_streaming.driver.jobs.shared import prepare
prepare(sys.argv[2:])
ours = sorted(name for name in os.environ if name.startswith("SHARED_TEST_"))
(Path(sys.argv[1]).parent / "seen").write_text(f"{os.getpid()} {os.getppid()} {' '.join(ours)}")
exec((Path(sys.argv[1]).parent / "script.py").read_text())
"""


@pytest.fixture(autouse=True)
def entry(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes are looked at from here, so they get no namespace of their own.
    monkeypatch.setenv(OFF_VARIABLE, "off")
    monkeypatch.setattr(module, "_ENTRY", ENTRY.replace("{", "{{").replace("}", "}}"))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return a_runtime(tmp_path / "spark")


def a_runtime(home: Path) -> Runtime:
    fakes = home / "fakes"
    (fakes / "pyspark").mkdir(parents=True)
    (fakes / "pyspark" / "__init__.py").write_text(PYSPARK)
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT.format(python=sys.executable, root=REPOSITORY, fakes=fakes))
    submit.chmod(0o755)
    return Runtime(
        name="spark-4.3",
        spark_home=home,
        python=Path(sys.executable),
        java_home=None,
        spark_version="4.3.0",
    )


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SharedSpark]:
    (tmp_path / "scratch").mkdir()
    with SharedSpark(tmp_path / "scratch") as spark:
        yield spark


class Ran:
    """One job in a shared Spark, and what its Python has seen."""

    def __init__(
        self,
        spark: SharedSpark,
        runtime: Runtime,
        script: str = "",
        seconds: float = PATIENCE,
        **of: Any,
    ) -> None:
        self.folder = spark.folder / f"job-{len(list(spark.folder.iterdir()))}"
        self.folder.mkdir()
        (self.folder / "script.py").write_text(textwrap.dedent(script))
        task = Task(
            job=Job.LOAD,
            order=ClassLoadingOrder(folder="", seconds=9),
            variable=of.pop("variable", "SHARED_TEST_A"),
        )
        program = Program(application="", source=of.pop("source", b""), **of)
        with spark.started(task, runtime, program, self.folder) as process:
            self.in_time = await_end(process, seconds)
            self.code = process.returncode
        self.words = last_words(self.folder)
        seen = self.folder / "seen"
        told = seen.read_text().split() if seen.exists() else ["0", "0"]
        self.pid, self.host, self.variables = int(told[0]), int(told[1]), told[2:]


def test_two_jobs_take_turns_in_one_spark_each_with_a_python_of_its_own(
    spark: SharedSpark, runtime: Runtime
) -> None:
    first = Ran(spark, runtime, variable="SHARED_TEST_A")
    second = Ran(spark, runtime, variable="SHARED_TEST_B", arguments=("other",))

    assert spark.starts == [NewSpark.FIRST]
    assert first.host == second.host
    assert first.pid != second.pid
    assert (first.variables, second.variables) == (["SHARED_TEST_A"], ["SHARED_TEST_B"])
    assert (first.code, second.code) == (0, 0)
    asked = (runtime.spark_home / "fakes" / "pyspark" / "asked").read_text()
    assert asked.count("getActive.get.stop") == 2
    assert asked.count("FileSystem.closeAll") == 2


def test_other_needs_get_another_spark_and_the_old_one_is_gone(
    spark: SharedSpark, runtime: Runtime
) -> None:
    first = Ran(spark, runtime)
    second = Ran(spark, runtime, conf={"spark.sql.shuffle.partitions": "3"})

    assert spark.starts == [NewSpark.FIRST, NewSpark.OTHER_NEEDS]
    assert second.host != first.host
    assert not psutil.pid_exists(first.host)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("open('notes.txt', 'w').close()", id="a file"),
        pytest.param("os.makedirs('warehouse/sales')", id="a table"),
    ],
)
def test_a_job_never_meets_what_the_one_before_has_left(
    spark: SharedSpark, runtime: Runtime, script: str
) -> None:
    Ran(spark, runtime, script)
    Ran(spark, runtime)
    assert spark.starts == [NewSpark.FIRST, NewSpark.LEFTOVERS]


def test_a_job_without_an_end_costs_the_spark_and_not_the_next_job(
    spark: SharedSpark, runtime: Runtime
) -> None:
    late = Ran(spark, runtime, "time.sleep(600)", seconds=2.0)
    after = Ran(spark, runtime)

    assert (late.in_time, late.code) == (False, None)
    assert not psutil.pid_exists(late.host)
    assert (after.in_time, after.code) == (True, 0)


def test_a_spark_that_dies_ends_its_job_and_its_last_words_are_kept(
    spark: SharedSpark, runtime: Runtime
) -> None:
    script = """
    print("Error: the job is done for", flush=True)
    os.kill(os.getppid(), 9)
    time.sleep(600)
    """
    died = Ran(spark, runtime, script)
    after = Ran(spark, runtime)

    assert died.in_time
    assert died.code not in (0, None)
    assert "done for" in died.words
    assert after.code == 0


def test_a_spark_that_cannot_be_cleaned_is_replaced_before_the_job_begins(
    spark: SharedSpark, runtime: Runtime
) -> None:
    Ran(spark, runtime)
    fake = runtime.spark_home / "fakes" / "pyspark" / "__init__.py"
    whole = fake.read_text()
    fake.write_text(
        whole.replace(
            "cls._gateway = _Any",
            "cls._gateway = None if Path.cwd().name == 'spark-1' else _Any",
        )
    )

    second = Ran(spark, runtime)

    assert spark.starts == [NewSpark.FIRST, NewSpark.NOT_READY]
    assert second.code == 0


def test_nothing_is_left_at_the_end(tmp_path: Path, runtime: Runtime) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    with SharedSpark(folder) as spark:
        ran = Ran(spark, runtime)
        assert psutil.pid_exists(ran.host)
    assert list(folder.iterdir()) == []
    assert not psutil.pid_exists(ran.host)


def test_a_spark_that_no_job_needs_is_not_started(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    with SharedSpark(folder) as spark:
        assert spark.starts == []
        assert list(folder.iterdir()) == []


CALLER: Final = """
import sys
from pathlib import Path
from tests.unit.spark_jobs.test_shared_spark import ENTRY, Ran, a_runtime
from airflow_streaming.spark_jobs import shared_spark
shared_spark._ENTRY = ENTRY.replace("{", "{{").replace("}", "}}")
folder = Path(sys.argv[1])
with shared_spark.SharedSpark(folder / "scratch") as spark:
    Ran(spark, a_runtime(folder / "spark"), "time.sleep(600)")
"""


def test_a_killed_caller_leaves_neither_a_process_nor_a_file(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)], cwd=REPOSITORY)
    try:
        until(lambda: list(scratch.glob("*/job-*/seen")), "The job")
        job, host = map(int, next(scratch.glob("*/job-*/seen")).read_text().split()[:2])
        jvm = psutil.Process(host).ppid()
    finally:
        caller.send_signal(signal.SIGKILL)
        caller.wait()
    until(lambda: not any(map(psutil.pid_exists, (job, host, jvm))), "The end of the job")
    until(lambda: not list(scratch.iterdir()), "The removal of the folder")


def test_a_job_sees_the_variables_that_its_own_script_names(
    spark: SharedSpark, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARED_TEST_CITY", "bern")
    first = Ran(spark, runtime)
    second = Ran(spark, runtime, source=b"city = os.environ['SHARED_TEST_CITY']")

    assert first.variables == ["SHARED_TEST_A"]
    assert second.variables == ["SHARED_TEST_A", "SHARED_TEST_CITY"]
    assert spark.starts == [NewSpark.FIRST, NewSpark.OTHER_NEEDS]


@pytest.mark.parametrize(
    ("last", "is_running", "expected"),
    [
        (JobEnd(code=0), True, None),
        (JobEnd(code=1), True, None),
        (JobEnd(code=0, leftovers=("derby.log",)), True, NewSpark.LEFTOVERS),
        (JobEnd(code=0), False, NewSpark.ENDED),
        (None, True, NewSpark.ENDED),
    ],
)
def test_a_spark_is_used_again_only_as_long_as_it_is_as_good_as_new(
    runtime: Runtime, last: JobEnd | None, is_running: bool, expected: NewSpark | None
) -> None:
    task = Task(job=Job.PLAN, order=ClassLoadingOrder(folder="", seconds=9), variable="A")
    program = Program(application="a.py", source=b"", env={"A": "1"}, output="/out")
    needs = needs_of(task, runtime, program)

    assert why_new(needs, needs, last, is_running=is_running) is expected


@pytest.mark.parametrize(
    ("more", "is_same"),
    [
        ({"source": b"b", "arguments": ("x",), "output": "/b"}, True),
        ({"conf": {"spark.a": "1"}}, False),
        ({"env": {"A": "2"}}, False),
        ({"packages": ("a:b:1",)}, False),
        ({"files": ("/a",)}, False),
    ],
)
def test_needs_are_what_a_spark_is_started_with(
    runtime: Runtime, more: dict[str, Any], is_same: bool
) -> None:
    task = Task(job=Job.PLAN, order=ClassLoadingOrder(folder="", seconds=9), variable="A")
    one = needs_of(task, runtime, Program(application="a.py", source=b""))
    other = needs_of(task, runtime, Program(**{"application": "b.py", "source": b"", **more}))
    assert (one == other) is is_same


def test_a_variable_that_the_script_names_belongs_to_the_needs(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(job=Job.PLAN, order=ClassLoadingOrder(folder="", seconds=9), variable="A")
    program = Program(application="a.py", source=b"os.environ['SHARED_TEST_CITY']")
    found = []
    for city in ("basel", "bern"):
        monkeypatch.setenv("SHARED_TEST_CITY", city)
        found.append((needs_of(task, runtime, program), needs_of(task, runtime, None)))

    (basel, before), (bern, after) = found
    assert basel != bern
    assert before == after


class NoCheckpoints:
    subject = "nothing"

    def copies(self, *_: object) -> list[Any]:
        return []


def test_both_runs_of_the_new_version_of_a_comparison_share_a_spark(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[str, SharedSpark | None]] = []

    def run(
        _: object, name: str, *given: object, spark: SharedSpark | None = None
    ) -> rehearsal_compare._Ran:
        runs.append((name, spark))
        return rehearsal_compare._Ran({}, ())

    monkeypatch.setattr(rehearsal_compare, "_run", run)
    version = rehearsal_compare.Version(
        program=Program(application="a.py", source=b""), runtime=runtime
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    rehearsal_compare.compare_versions(
        cast("OfCheckpoints", NoCheckpoints()), version, version, scratch=scratch
    )

    [old, new, fresh] = runs
    assert [name for name, _ in runs] == ["old", "new", "fresh"]
    assert old[1] is None, "two versions side by side would need the memory twice"
    assert new[1] is fresh[1] is not None
    assert [*scratch.iterdir()] == []
