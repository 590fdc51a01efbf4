"""An application with checkpoints of its own becomes a stream, and no row is lost or doubled."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest

from airflow_streaming.cli.main import main
from tests.integration.stream.conftest import RealStream
from tests.quick_java import spark_environment
from tests.unit.supervision.checkpoints import fingerprint

HEAD = """
import argparse
from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
for option in ("input", "output", "checkpoint"):
    parser.add_argument(f"--{option}")
args = parser.parse_args()
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.format("text").option("maxFilesPerTrigger", 2).load(args.input)

def write(frame, name):
    return frame.writeStream.format("parquet").option("path", f"{args.output}/{name}").trigger(**TRIGGER)

kept = write(lines, "kept").queryName("kept")
kept.option("checkpointLocation", args.checkpoint + "/deep/kept").start()
"""
OLD = f"""
TRIGGER = {{"availableNow": True}}
{HEAD}
lines.dropDuplicates(["value"]).writeStream.format("parquet").trigger(**TRIGGER).option(
    "checkpointLocation", args.checkpoint + "/second"
).start(f"{{args.output}}/second")
lines.writeStream.queryName("fixed").format("parquet").trigger(**TRIGGER).option(
    "checkpointLocation", "FIXED"
).start(f"{{args.output}}/fixed")
for query in spark.streams.active:
    query.awaitTermination()
"""
NEW = f"""
TRIGGER = {{"processingTime": "500 milliseconds"}}
{HEAD}
lines.dropDuplicates(["value"]).writeStream.queryName("second").format("parquet").trigger(
    **TRIGGER
).start(f"{{args.output}}/second")
lines.writeStream.queryName("fixed").format("parquet").trigger(**TRIGGER).start(
    f"{{args.output}}/fixed"
)
spark.streams.awaitAnyTermination()
"""


def rows(output: Path) -> list[str]:
    """Return the rows that the log of a file sink vouches for, sorted."""
    found = list[str]()
    for batch in (output / "_spark_metadata").glob("[0-9]*"):
        for line in batch.read_text().splitlines()[1:]:
            file = json.loads(line)["path"].removeprefix("file://")
            found += pyarrow.parquet.read_table(file, columns=["value"])["value"].to_pylist()
    return sorted(found)


def feed(folder: Path, first: int, last: int) -> None:
    for number in range(first, last):
        made = folder.parent / f"{number}.txt"
        # Half of the rows of a file are those of the file before it.
        made.write_text(f"{number}\n{number + 1}\n")
        made.rename(folder / made.name)


@pytest.mark.nightly("Three Sparks one after the other.")
def test_an_application_is_continued_by_the_first_launch(
    real: RealStream, spark_4_3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, old = tmp_path / "in", tmp_path / "out", tmp_path / "old"
    source.mkdir()
    feed(source, 0, 3)
    arguments = ["--input", str(source), "--output", str(output), "--checkpoint"]
    old_script = tmp_path / "old.py"
    old_script.write_text(OLD.replace("FIXED", str(old / "fixed")))
    subprocess.run(
        [spark_4_3 / "bin" / "python", old_script, *arguments, old],
        env=spark_environment(spark_4_3),
        check=True,
        capture_output=True,
    )
    # The application died after the sink had its last batch and before the commit.
    max((old / "deep/kept/commits").glob("[0-9]*"), key=lambda file: int(file.name)).unlink()
    for crc in (old / "deep/kept/commits").glob(".*.crc"):
        crc.unlink()
    before = fingerprint(old)
    places = [f"{name}={old}/{place}" for name, place in PLACES.items()]

    def adopt(script: Path, *more: str) -> tuple[int, str]:
        named = [part for place in places for part in ("--of", place)]
        command = ["--home", real.uri, "adopt", str(script), "--name", "orders", "--watch", "0.5"]
        runtime = ["--runtime", str(spark_4_3)]
        code = main([*command, *named, *runtime, *more, "--", *arguments, "{checkpoint}"])
        return code, capsys.readouterr().out

    code, told = adopt(old_script)
    assert code == 1
    assert '.queryName("second")' in told
    assert f"the checkpoint '{old}/fixed' is written in the script" in told
    real.script.write_text(NEW)
    code, told = adopt(real.script)
    assert code == 0, told

    feed(source, 3, 6)
    real.run(real.operator(application_args=[*arguments, "{checkpoint}"], output=None))

    expected = sorted(str(n) for number in range(6) for n in (number, number + 1))
    for name in ("kept", "fixed"):
        real.until(lambda name=name: len(rows(output / name)) >= 12, f"the rows of {name}")
        assert rows(output / name) == expected
    real.until(lambda: len(rows(output / "second")) >= 7, "the rows of second")
    assert rows(output / "second") == sorted(map(str, range(7))), "the state was continued"
    assert fingerprint(old) == before, "the originals are only read"
    place = Path(real.home.deployment(1).checkpoint)
    assert (place / "deep/kept/metadata").read_text() == (old / "deep/kept/metadata").read_text()


PLACES = {"kept": "deep/kept", "second": "second", "fixed": "fixed"}
