"""Terms of a change, as a dag's author gives them: when a deployment is kept, when green may become live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import nearest
from airflow_streaming.model.arguments.fields import (
    Positive,
    Range,
    check_values,
    named_fields,
    refuse_blank,
)
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import check_names

FORMATS: Final = (
    "parquet",
    "orc",
    "json",
    "csv",
    "text",
    "xml",
    "avro",
    "delta",
    "iceberg",
    "hudi",
    "kafka",
)
"""Names of formats that many have."""


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class SoakTerms:
    """
    Conditions for the new deployment before it is kept.

    :param batches: Batches that every query must commit, unless its source has no data; 0 to judge
        by ``at_least`` alone.
    :param at_least: How long it is watched after its first batch even when all goes well.
    :param at_most: Maximum duration of the soak; conditions not met by then count as failed.
    :param backlog_growth: Factor by which the backlog may exceed its value at the launch.
    :param queries: Names of the queries that must be there; empty when any will do.
    :raises SpecError: a field is of another kind, or out of its range, or there are no conditions.
    """

    batches: int = 3
    at_least: timedelta = timedelta(minutes=2)
    at_most: timedelta = timedelta(minutes=15)
    backlog_growth: float = 1.5
    queries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values(self)
        if not self.batches and not self.at_least:
            raise SpecError(
                "SoakTerms with batches=0 and at_least=0 would keep a deployment without any "
                "evidence. Set a number of batches, or a time."
            )
        check_names("SoakTerms.queries", self.queries)

    def __str__(self) -> str:
        of_batches = f"{self.batches} batches of every query and " if self.batches else ""
        return f"{of_batches}{duration_text(self.at_least)} without a finding"


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTerms:
    """
    Conditions for green before it may become live.

    :param well_for: How long it must be well without a break, by its driver's own clock.
    :param batches: Batches that every query must commit, unless its source has no data.
    :param backlog_records: Maximum backlog; ``None`` for no bound.
    :param backlog_factor: How much larger than blue's its backlog may be, one batch apart.
    :param measuring_errors: Failed measurements in a row before the operator must decide.
    :raises SpecError: a field is of another kind, or out of its range.
    """

    well_for: timedelta = timedelta(minutes=2)
    batches: int = 3
    backlog_records: float | None = None
    backlog_factor: float = 1.0
    measuring_errors: Annotated[int, Range(least=1)] = 4

    def __post_init__(self) -> None:
        check_values(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTerms:
    """
    How the outputs of one stream are compared: a PySpark job reads both, or, of topics, a consumer.

    :param stream: The stream.
    :param format: ``parquet``, ``json``, ``delta`` or any other format of the runtime; only a
        misspelled well-known name is refused here. ``kafka`` compares the records of two topics:
        ``keys`` are ``key``, ``value.FIELD`` or ``headers.NAME``, and ``ignore`` fields of a JSON
        value; ``options`` name the broker as Spark's source does, with ``{env.NAME}`` for a secret
        of the stream's ``env``. Order and repeats do not count.
    :param topic: Of ``kafka``: the topic of each lane, with the placeholders ``{stream}``,
        ``{deployment}`` and ``{output}`` of a script's arguments; empty for the topic in the plan
        of the only Kafka sink.
    :param headers: Of ``kafka``: compare the headers of records too.
    :param time: Column by whose buckets rows are counted; empty for one bucket. Of ``kafka``: where
        a record has the start of its window, as in ``keys``; default ``value.window.start``. After
        a replay, records of windows that began before it are left out.
    :param bucket: Length of a bucket.
    :param keys: Columns by which rows belong together.
    :param sums: Columns that are summed by bucket and key.
    :param full: Compare every row, column by column, too.
    :param ignore: Columns that may differ, or be in one of the two only.
    :param tolerance: Greatest relative difference of sums that still count as equal.
    :param settled: Only rows this much older than both watermarks are compared: later ones may
        still be in flight on one side.
    :param least_rows: With fewer rows in common time the comparison is inconclusive.
    :param options: Options of the reader.
    :raises SpecError: a field is of another kind, or out of its range; or a column is named twice,
        or is a key and ignored.
    """

    stream: str
    format: str = "parquet"
    time: str = ""
    bucket: Positive = timedelta(hours=1)
    keys: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    full: bool = False
    ignore: tuple[str, ...] = ()
    tolerance: float = 0.0
    settled: timedelta = timedelta(0)
    least_rows: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    topic: str = ""
    headers: bool = False

    def __post_init__(self) -> None:
        check_values(self)
        refuse_blank("CompareTerms", stream=self.stream, format=self.format)
        if " " in self.format.strip():
            raise SpecError(
                f"CompareTerms.format is {self.format!r:.80}; give the name of a format, e.g. 'parquet', or "
                "the class of a data source."
            )
        near = nearest(self.format.lower(), FORMATS, likeness=0.75)
        if near is not None and near != self.format.lower():
            raise SpecError(
                f"CompareTerms.format is {self.format!r:.80}; did you mean {near!r}? For a data source of "
                "that very name give its class."
            )
        for name in ("keys", "sums", "ignore"):
            check_names(f"CompareTerms.{name}", getattr(self, name))
        self._check_topic()
        both = sorted({*self.keys} & {*self.ignore})
        if both:
            raise SpecError(
                f"CompareTerms has {both[0]!r} in keys and in ignore: rows cannot belong together by a "
                "column that may differ. Take it out of one of them."
            )

    def _check_topic(self) -> None:
        # Not at dag parse.
        from airflow_streaming.model.spark.plan import KAFKA
        from airflow_streaming.model.spark.secrets import is_secret_name

        if self.format.lower() != KAFKA:
            if self.topic or self.headers:
                raise SpecError(
                    "CompareTerms.topic and headers belong to format='kafka'. Leave them out, or give that format."
                )
            return
        if self.topic and "{stream}" not in self.topic and "{output}" not in self.topic:
            raise SpecError(
                f"CompareTerms.topic is {self.topic!r:.80}, which can be one topic for both lanes: their first "
                "deployments have the number 1. Name a topic with {stream}, e.g. 'orders-{stream}-{deployment}'."
            )
        if self.sums:
            raise SpecError(
                "CompareTerms with format='kafka' compares records as sets, which have no sums. Leave sums out."
            )
        plain = [
            key
            for key, value in self.options.items()
            if is_secret_name(key) and value and "{env." not in value
        ]
        if plain:
            raise SpecError(
                f"CompareTerms.options has a value for {plain[0]}, and the home records these terms. Write "
                "'{env.NAME}' in its place, and set NAME in the env of the StreamSpec or of the command."
            )
