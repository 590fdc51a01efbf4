"""
The sink that a script chose, checked in a rehearsal that writes nothing to it.

The rehearsal puts a function of its own in the place of the sink, so Spark never sees the script's choice. This
module lets Spark check files and Kafka's connector check its columns and options, and asks the brokers for the topic.
The gates hold further checks as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.plan.checks import refusal_of
from airflow_streaming.driver.plan.reading import sink_of_writer
from airflow_streaming.driver.plan.writer_settings import WriterSettings
from airflow_streaming.model.plan.schema import columns_of
from airflow_streaming.model.spark.plan import KAFKA, SinkPlan

_OF_CLIENT: Final = "kafka."
_PATIENCE: Final = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}
_UNKNOWN_TOPIC: Final = "UnknownTopicOrPartitionException"
_CLOSING: Final = 5


class SinkRefused(Exception):
    """Spark would refuse the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSink:
    """
    The sink of a script, with the results of its checks.

    :param refusal: Why Spark would refuse it; empty where it would not.
    :param missing_topics: Kafka's topics that the brokers do not have; empty if they have all or do not answer.
    """

    sink: SinkPlan
    output_mode: str
    refusal: str = ""
    missing_topics: tuple[str, ...] = ()


def chosen_sink(writer: Any, settings: WriterSettings) -> ChosenSink | None:
    """Return the sink of a writer with the results of its checks; ``None`` if it cannot be read."""
    try:
        return _checked(writer, settings)
    except Exception as err:  # noqa: BLE001 - a rehearsal without the check still tells whether batches run
        logger.warning("The sink that the script chose could not be checked: %r", err)
        return None


def _checked(writer: Any, settings: WriterSettings) -> ChosenSink:
    gateway = writer._spark.sparkContext._gateway
    mode = settings.output_mode.lower() or "append"
    schema = columns_of(writer._df.schema.jsonValue())
    sink = replace(sink_of_writer(writer, settings), schema=schema)
    refusal = refusal_of(
        writer._df._jdf,
        gateway,
        mode=mode,
        sink=sink.sink,
        form=sink.format,
        partitioned_by=sink.partitioned_by,
        trigger=settings.processing_trigger,
        options=settings.options,
        notes=[],
    )
    is_checked = sink.sink == KAFKA and not refusal
    missing = (
        _missing_topics(gateway.jvm, sink.possible_topics, settings.options) if is_checked else ()
    )
    return ChosenSink(sink=sink, output_mode=mode, refusal=refusal, missing_topics=missing)


def _missing_topics(jvm: Any, topics: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the topics that the brokers do not have; without the rest as soon as they do not answer.

    :param options: Of the writer, with keys in small letters.
    """
    of_client = {
        k.removeprefix(_OF_CLIENT): v for k, v in options.items() if k.startswith(_OF_CLIENT)
    }
    if not topics:
        return ()
    properties = jvm.java.util.Properties()
    for key, value in {**of_client, **_PATIENCE}.items():
        properties.put(key, value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    missing: list[str] = []
    try:
        for topic in map(str.strip, topics):
            if _is_missing(jvm, admin, topic):
                missing.append(topic)
    except Exception as err:  # noqa: BLE001 - py4j's, whose class is known where pyspark is
        logger.warning("The brokers did not answer about topics %s: %s", ", ".join(topics), err)
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(_CLOSING))
    return tuple(missing)


def _is_missing(jvm: Any, admin: Any, topic: str) -> bool:
    names = jvm.java.util.ArrayList()
    names.add(topic)
    try:
        admin.describeTopics(names).allTopicNames().get()
    except Exception as err:
        if _cause_of(err).endswith(_UNKNOWN_TOPIC):
            return True
        raise
    return False


def _cause_of(err: Exception) -> str:
    """Return the class of the Java exception that caused an error; empty if none did."""
    java = getattr(err, "java_exception", None)
    cause = None if java is None else java.getCause()
    return "" if cause is None else str(cause.getClass().getName())
