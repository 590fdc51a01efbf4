"""
Comparing outputs: a Spark of its own reads both and says by bucket and key where they differ.

It only reads, so it may run while both streams continue. Watermarks must be read before, because
then all older rows are committed by the time the outputs are opened.
Each failure becomes a report that proves nothing; only a comparison that was made can fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from airflow_streaming.checkpoints.progress import Phase, Progress, ProgressNow, no_progress
from airflow_streaming.exceptions import LaunchError, RecordError
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.jobs.comparison import (
    Bound,
    CompareOrder,
    CompareReport,
    ComparisonRequest,
    is_one_output,
    not_made,
)
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.model.uris import is_local
from airflow_streaming.spark_jobs.runner import (
    Job,
    Program,
    Task,
    await_end,
    last_words,
    started,
)
from airflow_streaming.spark_jobs.scratch import scratch_folder

PREFIX: Final = "airflow-streaming-compare-"
COMPARE_VARIABLE: Final = "AIRFLOW_STREAMING_COMPARE"
"""Set to 1 in the Spark of a comparison."""
_PLAIN: Final = frozenset({"parquet", "orc", "json", "csv"})
"""Formats that Spark reads from a local folder without anything else."""


class Outputs(NamedTuple):
    """
    Two outputs to compare.

    :param blue: The deployment that writes it, or its URI.
    :param green: The same of green.
    :param bound: The known bounds of the time to compare.
    """

    terms: CompareTerms
    blue: Deployment | str
    green: Deployment | str
    bound: Bound | None = None


def compare(
    terms: CompareTerms,
    blue: Deployment | str,
    green: Deployment | str,
    runtime: Runtime,
    *,
    bound: Bound | None = None,
    program: Program | None = None,
    scratch: Path | None = None,
    timeout: timedelta = timedelta(minutes=30),
    progress: Progress = no_progress,
) -> CompareReport:
    """
    Compare the outputs of two deployments.

    :param blue: The deployment, or the URI of its output.
    :param bound: The known bounds of the time to compare; watermarks must be read beforehand.
    :param program: Configuration, jars and packages to read with; by default those of blue's
        deployment, without its secrets, where the outputs are not plain files of this host.
    :param scratch: A local folder in which one for its files is made and removed again; default:
        the system's folder for temporary files.
    :param timeout: After this, and the time for rows in flight, it is ended and proves nothing.
    :return: Always a report: what could not be measured is inconclusive, with the reason.
    """
    request = ComparisonRequest(terms=terms, blue=_uri(blue), green=_uri(green))
    if wrong := is_one_output(request):
        return not_made(request, wrong, at=datetime.now(UTC), refused=True)
    asked = [Outputs(terms, blue, green, bound)]
    return compare_all(
        asked, runtime, program=program, scratch=scratch, timeout=timeout, progress=progress
    )[0]


def compare_all(
    outputs: Sequence[Outputs],
    runtime: Runtime,
    *,
    program: Program | None = None,
    scratch: Path | None = None,
    timeout: timedelta = timedelta(minutes=30),
    progress: Progress = no_progress,
) -> list[CompareReport]:
    """Do several comparisons with one Spark; as ``compare``, in the order asked."""
    asked = tuple(
        ComparisonRequest(terms=terms, blue=_uri(blue), green=_uri(green), bound=bound or Bound())
        for terms, blue, green, bound in outputs
    )
    if not asked:
        return []
    with scratch_folder(scratch, PREFIX) as own:
        order = CompareOrder(
            asked=asked,
            reports=str(own.folder / "reports.jsonl"),
            seconds=_seconds(asked, timeout),
            held=str(own.held),
            scratch=str(own.folder),
        )
        needed = program or _program(outputs)
        failure = _run(order, runtime, needed, own.folder, progress)
        made = _reports(order)
    lacking = asked[len(made) :]
    return made + [not_made(one, failure, at=datetime.now(UTC)) for one in lacking]


def _seconds(asked: Sequence[ComparisonRequest], timeout: timedelta) -> float:
    """Return the time of an order; each comparison may wait for rows in flight beside it."""
    return sum((one.bound.in_flight for one in asked), timeout).total_seconds()


def _run(
    order: CompareOrder, runtime: Runtime, program: Program | None, scratch: Path, tell: Progress
) -> str:
    """Have a Spark do the order; return why it did not come to its end, if it did not."""
    task = Task(job=Job.COMPARE, order=order, variable=COMPARE_VARIABLE)

    def look() -> None:
        done = len(_reports(order))
        tell(ProgressNow(phase=Phase.COMPARE, files=done, of=len(order.asked), unit="streams"))

    try:
        with started(task, runtime, program, scratch) as process:
            in_time = await_end(process, order.seconds, look)
    except LaunchError as err:
        return str(err)
    if not in_time:
        return (
            f"The comparison was ended after {duration_text(order.seconds)}. Give it more time, or compare "
            "a shorter span."
        )
    code = process.returncode
    return f"The Spark of the comparison ended with code {code}: {last_words(scratch)}"


def _reports(order: CompareOrder) -> list[CompareReport]:
    try:
        lines = Path(order.reports).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(CompareReport.from_bytes(line))
        except RecordError:
            break
    return found


def _program(outputs: Iterable[Outputs]) -> Program | None:
    """Return the settings to read outputs outside this host's files."""
    for terms, blue, green, _ in outputs:
        is_plain = terms.format in _PLAIN and is_local(_uri(blue)) and is_local(_uri(green))
        if not is_plain and isinstance(blue, Deployment):
            known = {key: value for key, value in blue.conf.items() if value != REDACTED}
            return Program(
                application="", source=b"", conf=known, jars=blue.jars, packages=blue.packages
            )
    return None


def _uri(output: Deployment | str) -> str:
    return output if isinstance(output, str) else output.output
