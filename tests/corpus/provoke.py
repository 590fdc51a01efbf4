"""
Makes the corpus: provokes every failure in a real Spark and keeps what it says.

::

    python -m tests.corpus.provoke --runtime spark-4.3
    python -m tests.corpus.provoke --runtime spark-4.3 --only state_delta_gone

One session plays nearly all scenarios; those that end the JVM or need settings of their own get a
process each. The texts are taken where the driver takes them, and names of the machine are masked.
What a failure is called stands in the table of scenarios, written by hand before it was provoked;
the diagnosis has no part in it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, Final

import tests.corpus.checkpoints
import tests.corpus.outside
import tests.corpus.setup
import tests.corpus.user_code  # noqa: F401  # the four enter their scenarios
from airflow_streaming.driver.monitoring.spark_query import SparkQuery, causes_of, text_of
from airflow_streaming.driver.script import error_of
from tests.corpus.stage import SCENARIOS, NotHere, Scenario, Stage, ended, write_bases

FAILURES: Final = Path(__file__).parent / "failures"
REPO: Final = Path(__file__).parents[2]
MAX_TEXT: Final = 8_000
CONF: Final = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
}

logger = logging.getLogger("corpus")


def main() -> None:
    """Provoke, for one runtime, all scenarios or one."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", help="e.g. spark-4.3")
    parser.add_argument("--only", help="one scenario, into a file that replaces nothing else")
    parser.add_argument("--inside", type=Path, help="used by the program itself")
    asked = parser.parse_args()
    if asked.inside is not None:
        play_inside(asked.inside, asked.only)
    else:
        provoke(asked.runtime, asked.only)


def provoke(runtime: str, only: str | None) -> None:
    """Play scenarios in a runtime and keep their failures."""
    names = [only] if only else [None, *(s.name for s in SCENARIOS.values() if s.alone)]
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, name in enumerate(names):
            work = Path(scratch) / str(number)
            _play_in_process(runtime, work, name)
            for line in (work / "found.jsonl").read_text().splitlines():
                failure = json.loads(line)
                found[failure["scenario"]] = failure
    keep(runtime, found, replace_all=only is None)


def keep(runtime: str, found: dict[str, dict[str, Any]], *, replace_all: bool) -> None:
    """Write the failures of a runtime, one a line, sorted by scenario."""
    path = FAILURES / f"{runtime}.jsonl"
    kept = {}
    if not replace_all and path.exists():
        kept = {f["scenario"]: f for f in map(json.loads, path.read_text().splitlines())}
    kept |= found
    FAILURES.mkdir(exist_ok=True)
    lines = [json.dumps(kept[name], sort_keys=True) for name in sorted(kept)]
    path.write_text("\n".join(lines) + "\n")
    logger.info("%s holds %d failures.", path.name, len(kept))


def _play_in_process(runtime: str, work: Path, name: str | None) -> None:
    work.mkdir()
    (work / "found.jsonl").touch()
    command = [str(runtime_folder(runtime) / "bin/python"), "-m", "tests.corpus.provoke"]
    command += ["--inside", str(work), *(["--only", name] if name else [])]
    env = {**os.environ, "PYTHONPATH": str(REPO), "PYTHONDONTWRITEBYTECODE": "1"}
    with (work / "log.txt").open("wb") as log:
        try:
            subprocess.run(command, env=env, cwd=work, stderr=log, timeout=900, check=False)
        except subprocess.TimeoutExpired:
            logger.warning("%s did not end in time.", name or "The common session")


def runtime_folder(name: str) -> Path:
    """Return the virtual environment of a Spark runtime."""
    told = json.loads(os.environ.get("AIRFLOW_STREAMING_TEST_RUNTIMES", "{}"))
    return Path(told.get(name, REPO / ".runtimes" / name))


def play_inside(work: Path, only: str | None) -> None:
    """Play scenarios in this process, which runs the runtime's Python."""
    from pyspark.sql import SparkSession

    chosen = [SCENARIOS[only]] if only else [s for s in SCENARIOS.values() if not s.alone]
    conf = {**CONF, **(chosen[0].conf if only else {})}
    builder = SparkSession.builder.appName("corpus")
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as err:  # noqa: BLE001  # the scenario may be about this
        _tell(work, chosen[0], told_by_script(err))
        return
    stage = Stage(spark, work / "stage")
    write_bases(stage)
    for scenario in chosen:
        begun = time.monotonic()
        _tell(work, scenario, _played(scenario, stage))
        print(f"{time.monotonic() - begun:6.1f} s", flush=True)  # noqa: T201
    # A JVM that a scenario has ended would be waited for in vain.
    os._exit(0)


def _played(scenario: Scenario, stage: Stage) -> dict[str, Any] | None:
    try:
        query = scenario.play(stage)
        if query is None or not hasattr(query, "_jsq"):
            return None
        ended(query)
        return told_by_query(query)
    except NotHere:
        return None
    except Exception as err:  # noqa: BLE001  # this is what we are here for
        return told_by_script(err)


def told_by_query(query: Any) -> dict[str, Any] | None:
    """Return what the driver learns from a query that failed."""
    error = SparkQuery(query._jsq).error()
    if error is None:
        return None
    java = query._jsq.exception().get()
    return {
        "told_by": "query",
        "exception_class": error.exception_class,
        "condition": error.condition,
        "conditions": list(error.conditions),
        "text": text_of(java, causes_of(java)),
    }


def told_by_script(err: Exception) -> dict[str, Any]:
    """Return what the driver learns from an exception that ends the script."""
    error = error_of(err)
    return {
        "told_by": "script",
        "exception_class": error.exception_class,
        "condition": error.condition,
        "conditions": list(error.conditions),
        "text": "".join(traceback.format_exception(err)),
    }


def _tell(work: Path, scenario: Scenario, told: dict[str, Any] | None) -> None:
    line = "no failure" if told is None else f"{told['exception_class']} {told['conditions']}"
    print(f"{scenario.name:45} {line}", flush=True)  # noqa: T201
    if told is None:
        return
    import pyspark

    told["text"] = shortened(masked(told["text"], work))
    failure = {
        "scenario": scenario.name,
        "spark": pyspark.__version__,
        "expected": scenario.expected.value,
        "reason": scenario.reason,
        **told,
    }
    with (work / "found.jsonl").open("a") as found:
        found.write(json.dumps(failure) + "\n")


def masked(text: str, work: Path) -> str:
    """Return the text without names of this machine."""
    import pyspark

    # The module's own folder may be reached by a link.
    library = Path(pyspark.__file__).parent
    names = {
        str(work): "/data",
        str(library): "/opt/spark/pyspark",
        str(Path(sys.prefix)): "/opt/spark/python",
        str(Path(os.__file__).parent): "/usr/lib/python3",
        sys.base_prefix: "/usr",
        str(REPO): "/app",
        socket.getfqdn(): "host-1",
        socket.gethostname(): "host-1",
        socket.gethostbyname(socket.gethostname()): "10.0.0.1",
    }
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    text = re.sub(r"\b(?!127\.)\d{1,3}(?:\.\d{1,3}){3}\b", "10.0.0.1", text)
    # Which shell, job or folder of a person started this is nobody's business.
    return re.sub(r"/(?:home/\w+|root|tmp|work)/[^\s:'\",)]*", "/data/other", text)


def shortened(text: str) -> str:
    """
    Return the text with long lines and the middle left out.

    Of a stack those frames stay which a reader would look for: the first four and the streaming
    engine's.
    """
    lines, frames = [], 0
    for line in text.splitlines():
        frames = frames + 1 if line.startswith(("\tat ", "        at ")) else 0
        if frames <= 4 or ".streaming." in line:
            lines.append(line[:2_000])
    text = "\n".join(lines)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n(cut)\n{text[-half:]}"


if __name__ == "__main__":
    main()
