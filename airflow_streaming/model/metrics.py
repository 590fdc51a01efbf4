"""
The table of metrics: one row for each, with its rules, sentences and exports.

To add a metric, add a member with its row. A row with ``from_spark`` takes its figure out of
Spark's progress report; the driver records it, exports it under the row's name, and rules may use
it. A figure over a time is a sum over a sum, never a mean of ratios: a batch of a million rows must
not weigh as much as one of three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from airflow_streaming.model.durations import duration_text, number_text

if TYPE_CHECKING:
    from airflow_streaming.model.progress import BatchProgress, SourceProgress

_UPLOADED: Final = "SnapshotLastUploaded."
_REPAIRED: Final = "rocksdbNumSnapshotsAutoRepaired"
Parts = tuple[float, ...]
"""A batch's contribution to a figure; the parts of several batches are added up."""


def _share(figure: float) -> str:
    return f"{number_text(100 * figure)} %"


def _number(figure: float) -> str:
    return number_text(figure, digits=6)


def _bytes(figure: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if figure >= size:
            return f"{number_text(figure / size)} {unit}"
    return f"{figure:.0f} bytes"


class Unit(Enum):
    """The unit of a metric: in exported names, and its form in sentences."""

    COUNT = "", number_text
    NUMBER = "number", _number
    SECONDS = "seconds", duration_text
    BYTES = "bytes", _bytes
    SHARE = "ratio", _share

    def text(self, figure: float) -> str:
        """Return a figure for a sentence, with its unit where the sentence does not name it."""
        form: Callable[[float], str] = self.value[1]
        return form(figure)

    @property
    def suffix(self) -> str:
        """Return the unit in exported names, e.g. ``seconds``; empty where the name says it."""
        return "" if self is Unit.NUMBER else self.value[0]


class BatchContext(NamedTuple):
    """
    The context of a batch's figure.

    :param gap: Seconds from the start of the batch before to this one; ``None`` for the first.
    :param interval: Seconds of the processing trigger; 0 without one.
    :param column: The observed number that the rule names.
    """

    gap: float | None
    interval: float
    column: str = ""


def _mean(parts: Parts) -> float | None:
    figure, batches = parts
    return figure / batches


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """
    The row of one metric. It sets at most one of the five ways to read the figure.

    :param words: The query's behavior, as it follows its name; ``{}`` is replaced by the figure.
    :param bound_words: A bound of rules; ``{}`` is replaced by the figure.
    :param zero_words: The same for a figure of zero, where it differs; ``{}`` is replaced by the
        time.
    :param missing: The unreported value when the figure is missing.
    :param of_batch: The figure of a batch; ``None`` where Spark did not report it.
    :param of_source: The figure of each source, for metrics that every source has.
    :param from_spark: The figure in Spark's progress report (its JSON, untrusted: read it with the
        functions of ``model.progress``). It is kept in ``BatchProgress.figures``.
    :param parts: For figures other than a plain mean over batches: a batch's contribution.
    :param figure: The figure from added parts; ``None`` without a value.
    :param least: The figure is never below this; ``None`` where it may be negative.
    :param most: The figure is never above this.
    :param only_at_work: It measures work that is done or waiting, so an idle query is healthy by
        it. Other figures (state, watermark, observed numbers) keep their values.
    :param needs_interval: It is measured by the interval of the processing trigger.
    :param export: Name in metrics systems, without prefix and unit; empty: not exported.
    :param help: Description of the exported figure, for Prometheus and OpenTelemetry.
    :param low_is_worse: Of two figures of one source the lower one counts.
    :param adds_up: Exported as a counter over the epoch, not as the latest value.
    """

    unit: Unit
    words: str
    bound_words: str = "{}"
    zero_words: str = ""
    missing: str = "the figure"
    of_batch: Callable[[BatchProgress], float | None] | None = None
    of_source: Callable[[SourceProgress], float | None] | None = None
    from_spark: Callable[[Mapping[str, Any]], float | None] | None = None
    parts: Callable[[BatchProgress, BatchContext], Parts | None] | None = None
    figure: Callable[[Parts], float | None] = _mean
    least: float | None = 0.0
    most: float | None = None
    only_at_work: bool = False
    needs_interval: bool = False
    export: str = ""
    help: str = ""
    adds_up: bool = False
    low_is_worse: bool = False

    def in_words(self, figure: float) -> str:
        """Return a figure with its unit, e.g. ``62 %`` or ``200,000 records``."""
        return self.bound_words.format(self.unit.text(figure))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _processing_times(row: BatchProgress, context: BatchContext) -> Parts | None:
    # Spark divides by the time since its last look for data. With a trigger that looks all the time
    # that is some milliseconds, and a query that easily keeps up would read as hopelessly behind;
    # the time since the last batch is when the rows came.
    rate_in, rate_out = row.input_rows_per_second, row.processed_rows_per_second
    times = [] if context.gap is None else [context.gap]
    if row.input_rows and rate_in:
        times.append(row.input_rows / rate_in)
    if not times:
        return None
    processing = row.input_rows / rate_out if row.input_rows and rate_out else None
    return (
        max(times),
        row.duration_ms / 1000 if processing is None else processing,
        row.input_rows,
    )


def _share_processed(parts: Parts) -> float | None:
    input_s, processing_s, rows = parts
    return input_s / processing_s if rows and processing_s else None


def _backlog_and_pace(row: BatchProgress, _: BatchContext) -> Parts | None:
    known = [s.backlog_records for s in row.sources if s.backlog_records is not None]
    return (sum(known), 1, row.input_rows, row.duration_ms / 1000) if known else None


def _time_to_process(parts: Parts) -> float | None:
    backlog, batches, rows, processing_s = parts
    if not backlog:
        return 0.0
    return backlog / batches * processing_s / rows if rows else None


def _per_interval(row: BatchProgress, context: BatchContext) -> Parts | None:
    return (row.duration_ms / 1000 / context.interval, 1) if context.interval else None


def _store_metrics(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers that state stores report beside Spark's own, of all operators."""
    operators = report.get("stateOperators")
    for operator in operators if isinstance(operators, list) else []:
        custom = operator.get("customMetrics") if isinstance(operator, Mapping) else None
        for name, value in custom.items() if isinstance(custom, Mapping) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(name), float(value)


def _snapshot_lag(report: Mapping[str, Any]) -> float | None:
    batch = report.get("batchId")
    uploaded = [v for name, v in _store_metrics(report) if name.startswith(_UPLOADED)]
    if not uploaded or not isinstance(batch, int):
        return None
    # The state of batch N is version N + 1; -1 stands for a store without a snapshot.
    return max(0.0, batch + 1 - max(0.0, min(uploaded)))


def _repaired(report: Mapping[str, Any]) -> float | None:
    found = [value for name, value in _store_metrics(report) if name == _REPAIRED]
    return sum(found) if found else None


def _observed(row: BatchProgress, context: BatchContext) -> Parts | None:
    figure = row.observed.get(context.column)
    return None if figure is None else (figure, 1)


class Metric(StrEnum):
    """The subject of a rule; the unit is a part of the name where it has one."""

    row: MetricRow

    def __new__(cls, name: str, row: MetricRow) -> Self:
        member = str.__new__(cls, name)
        member._value_, member.row = name, row
        return member

    INPUT_RATE = (
        "input_rate",
        MetricRow(
            unit=Unit.COUNT,
            words="has read {} rows a second",
            bound_words="{} rows/s",
            zero_words="has read no rows in {}",
            parts=lambda row, _: (row.input_rows,),
        ),
    )
    """Rows a second that came in, over ``mean_over``; 0 when no batch has come in that time."""
    PROCESSING_SHARE = (
        "processing_share",
        MetricRow(
            unit=Unit.SHARE,
            words="has processed {} of its input",
            missing="rates that tell how it keeps up",
            parts=_processing_times,
            figure=_share_processed,
            only_at_work=True,
        ),
    )
    """Rows processed a second as a share of the rows that came in a second; 1 keeps up."""
    BATCH_SECONDS = (
        "batch_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="has taken {} for a batch",
            of_batch=lambda row: row.duration_ms / 1000,
            only_at_work=True,
            export="batch_duration",
            help="Whole time of the latest batch.",
        ),
    )
    BATCH_SHARE = (
        "batch_share",
        MetricRow(
            unit=Unit.COUNT,
            words="has taken {} times its processing interval for a batch",
            bound_words="{} intervals",
            parts=_per_interval,
            only_at_work=True,
            needs_interval=True,
        ),
    )
    """Duration of a batch as a share of the interval of its processing trigger."""
    WATERMARK_DELAY_SECONDS = (
        "watermark_delay_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="has had its watermark {} behind",
            missing="a watermark",
            of_batch=lambda row: row.watermark_delay_s,
            least=None,
            export="watermark_delay",
            help="Start of the latest batch minus its watermark.",
        ),
    )
    STATE_ROWS = (
        "state_rows",
        MetricRow(
            unit=Unit.COUNT,
            words="has held {} rows of state",
            bound_words="{} rows",
            missing="state rows",
            of_batch=lambda row: row.state_rows,
            export="state_rows",
            help="Rows in the state stores after the latest batch.",
        ),
    )
    STATE_BYTES = (
        "state_bytes",
        MetricRow(
            unit=Unit.BYTES,
            words="has held {} of state",
            missing="the memory of its state",
            of_batch=lambda row: row.state_bytes,
            export="state_memory",
            help="Memory used by the state stores after the latest batch.",
        ),
    )
    DROPPED_ROWS = (
        "dropped_rows",
        MetricRow(
            unit=Unit.COUNT,
            words="has dropped {} late rows in a batch",
            bound_words="{} rows a batch",
            missing="rows dropped by the watermark",
            of_batch=lambda row: row.dropped_rows,
            only_at_work=True,
            export="dropped_rows",
            help="Rows that came behind the watermark and were dropped, in this epoch.",
            adds_up=True,
        ),
    )
    """Rows a batch dropped because they came behind the watermark."""
    BACKLOG_RECORDS = (
        "backlog_records",
        MetricRow(
            unit=Unit.COUNT,
            words="has had a backlog of {} records",
            bound_words="{} records",
            missing="a backlog in records",
            of_source=lambda source: source.backlog_records,
            only_at_work=True,
            export="source_backlog_records",
            help="Records that the source held after the latest batch.",
        ),
    )
    BACKLOG_BYTES = (
        "backlog_bytes",
        MetricRow(
            unit=Unit.BYTES,
            words="has had a backlog of {}",
            missing="a backlog in bytes",
            of_source=lambda source: source.backlog_bytes,
            only_at_work=True,
            export="source_backlog",
            help="Bytes that the source held after the latest batch.",
        ),
    )
    BACKLOG_FILES = (
        "backlog_files",
        MetricRow(
            unit=Unit.COUNT,
            words="has had a backlog of {} files",
            bound_words="{} files",
            missing="a backlog in files",
            of_source=lambda source: source.backlog_files,
            only_at_work=True,
            export="source_backlog_files",
            help="Files that the source held after the latest batch.",
        ),
    )
    BACKLOG_SECONDS = (
        "backlog_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="has had a backlog of {} of work",
            missing="a backlog in records and rows to measure it by",
            parts=_backlog_and_pace,
            figure=_time_to_process,
            only_at_work=True,
        ),
    )
    """Backlog in records over the rate at which they are processed."""
    LOSS_SECONDS = (
        "loss_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="loses unread data in {}",
            missing="when unread data is removed",
            of_source=lambda source: source.loss_in_s,
            low_is_worse=True,
            export="source_loss",
            help="Time until the source removes data that the query has not read.",
        ),
    )
    """Seconds until the source removes the first unread data."""
    LOSS_SHARE = (
        "loss_share",
        MetricRow(
            unit=Unit.SHARE,
            words="has {} of the retention left for its oldest unread data",
            missing="how long unread data is kept",
            of_source=lambda source: source.loss_share,
            low_is_worse=True,
            most=1.0,
            export="source_loss_share",
            help="Share of the source's retention that is left for the oldest unread data.",
        ),
    )
    """The same as a share of the time for which the source keeps data: 1 with everything read."""
    STATE_COMMIT_SECONDS = (
        "state_commit_seconds",
        MetricRow(
            unit=Unit.SECONDS,
            words="has taken {} to commit its state",
            missing="how long its state took to commit",
            of_batch=lambda row: _seconds(row.state_commit_ms),
            only_at_work=True,
            export="state_commit_duration",
            help="Time to commit one state store in the latest batch, of the slowest operator.",
        ),
    )
    SNAPSHOT_LAG = (
        "snapshot_lag",
        MetricRow(
            unit=Unit.COUNT,
            words="has a state store whose last snapshot is {} batches old",
            bound_words="{} batches",
            missing="the uploads of its snapshots",
            from_spark=_snapshot_lag,
            export="state_snapshot_lag",
            help="Batches since the last uploaded snapshot, of the state store that is furthest behind.",
        ),
    )
    """Batches since the last snapshot of the state store that is furthest behind; Spark 4.1 and newer with RocksDB."""
    REPAIRED_SNAPSHOTS = (
        "repaired_snapshots",
        MetricRow(
            unit=Unit.COUNT,
            words="has repaired {} damaged snapshots in a batch",
            bound_words="{} a batch",
            missing="the repairs of its snapshots",
            from_spark=_repaired,
            only_at_work=True,
            export="state_repaired_snapshots",
            help="Damaged snapshots that Spark repaired from change logs, in this epoch.",
            adds_up=True,
        ),
    )
    """Damaged snapshots that Spark rebuilt from older ones and change logs; Spark 4.2 and newer."""
    CACHE_MISS_SHARE = (
        "cache_miss_share",
        MetricRow(
            unit=Unit.SHARE,
            words="has missed the block cache in {} of look-ups",
            missing="look-ups in the block cache",
            of_batch=lambda row: row.cache_miss_share,
            most=1.0,
            only_at_work=True,
            export="state_cache_miss",
            help="Misses of RocksDB's block cache as a share of its look-ups in the latest batch.",
        ),
    )
    MISSING_EXECUTORS = (
        "missing_executors",
        MetricRow(
            unit=Unit.COUNT,
            words="has run with {} executors fewer than wanted",
            missing="the requested number of executors",
            of_batch=lambda row: row.figures.get("missing_executors"),
            export="missing_executors",
            help="Executors that the configuration asks for and the application did not have.",
        ),
    )
    """Of the application, told with each batch; on a cluster only."""
    LOST_EXECUTORS = (
        "lost_executors",
        MetricRow(
            unit=Unit.COUNT,
            words="has lost {} executors in an hour",
            bound_words="{} an hour",
            missing="the executors that it lost",
            of_batch=lambda row: row.figures.get("lost_executors"),
            export="lost_executors",
            help="Executors that went in the hour before the latest batch was seen.",
        ),
    )
    FAILED_TASKS = (
        "failed_tasks",
        MetricRow(
            unit=Unit.COUNT,
            words="has had {} failed tasks in a batch",
            bound_words="{} a batch",
            missing="the tasks that failed",
            of_batch=lambda row: row.figures.get("failed_tasks"),
            only_at_work=True,
            export="failed_tasks",
            help="Tasks of the application that failed, in this epoch.",
            adds_up=True,
        ),
    )
    """Tasks that failed since the batch before; of all queries, told with one of them."""
    OBSERVED = (
        "observed",
        MetricRow(
            unit=Unit.NUMBER,
            words="has observed {column} = {}",
            parts=_observed,
            least=None,
        ),
    )
    """A number of ``df.observe``; the rule's ``column`` names it as ``name.column``."""
    COMMIT_AGE_SECONDS = (
        "commit_age_seconds",
        MetricRow(unit=Unit.SECONDS, words="has worked {} without committing a batch"),
    )
    """Time a query has had work without committing a batch; a query that waits has none."""

    @property
    def is_per_source(self) -> bool:
        """Tell whether every source of a query has a figure of its own."""
        return self.row.of_source is not None

    def batch_figure(self, progress: BatchProgress) -> float | None:
        """Return the figure of one batch; ``None`` if it is missing or needs a context."""
        if self.row.from_spark is not None:
            return progress.figures.get(self.value)
        return None if self.row.of_batch is None else self.row.of_batch(progress)

    def parts_of(self, progress: BatchProgress, context: BatchContext) -> Parts | None:
        """Return a batch's contribution to its query's figure; ``None`` if not reported."""
        if self.row.parts is not None:
            return self.row.parts(progress, context)
        figure = self.batch_figure(progress)
        return None if figure is None else (figure, 1)

    def parts_of_sources(self, progress: BatchProgress) -> dict[str, Parts | None]:
        """Return a batch's contribution to the figure of each source."""
        found: dict[str, Parts | None] = {}
        for source in progress.sources:
            figure = None if self.row.of_source is None else self.row.of_source(source)
            known = found.get(source.source)
            # A query may read one place twice; the worse counts.
            if known is None or (figure is not None and self._is_worse(figure, known[0])):
                found[source.source] = None if figure is None else (figure, 1)
        return found

    def _is_worse(self, figure: float, known: float) -> bool:
        return figure < known if self.row.low_is_worse else figure > known


def reported_figures(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that rows take out of a progress report of Spark's, by metric."""
    read = {metric.value: metric.row.from_spark for metric in Metric}
    found = {name: take(report) for name, take in read.items() if take is not None}
    return {name: figure for name, figure in found.items() if figure is not None}
