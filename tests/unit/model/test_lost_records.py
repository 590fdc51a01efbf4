"""What a Kafka source has lost, from messages of Spark 4.3 with a real broker and of Spark 3.5."""

from __future__ import annotations

import time

import pytest

from airflow_streaming.driver.monitoring.spark_query import QueryError
from airflow_streaming.model.spark.failure_signs import FailureKind
from airflow_streaming.model.spark.failures import diagnose
from airflow_streaming.model.spark.lost_records import lost_records

HEAD = (
    "[STREAM_FAILED] Query [id = 276a04c5-2bfe-4224-8b92-7a4f8fa7d151, runId = b830c1f8-6ef7-4a8a-a58b-4a41c4323d78] "
    "terminated with exception: "
)
SOME = (
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "either the data was aged out by Kafka or the topic may have been deleted before all the data in the\n"
    "topic was processed.\n"
    "If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.\n"
    "Reason: "
)


def said(reason: str, *, subscribed: str = "Subscribe[clicks]") -> str:
    return (
        f"{HEAD}{SOME}{reason} SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: q\n"
        f'Current Committed Offsets: {{KafkaV2[{subscribed}]: {{"clicks":{{"0":30}}}}}}\n'
        f"Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: {SOME}{reason}\n"
    )


EXPIRED = (
    "Could not read records in offset [20, 40) for topic partition clicks-0\n"
    "with consumer group spark-kafka-source-2dea7ee0--1557720017-executor."
)
AS_LOST = "failOnDataLoss=false continues with the oldest record"
CASES = [
    pytest.param(
        said("Partition clicks-0 offset was changed from 30 to 10."),
        "Partition clicks-0 ends at offset 10, and the checkpoint stands at 30",
        "Do not set failOnDataLoss=false: Spark would never read the records of clicks-0 before offset 30.",
        id="created anew",
    ),
    pytest.param(
        f"{HEAD}Partition a.b_c-x-12's offset was changed from 30 to 10, some data may have been missed. ",
        "Partition a.b_c-x-12 ends at offset 10",
        "Do not set failOnDataLoss=false",
        id="created anew, 3.5",
    ),
    pytest.param(
        said(EXPIRED),
        "Offsets 20 to 39 of partition clicks-0 are planned",
        AS_LOST,
        id="expired in a planned batch",
    ),
    pytest.param(
        said("Could not read records in offset [20, 40) for topic partition clicks.v2-0."),
        "Offsets 20 to 39 of partition clicks.v2-0 are planned",
        AS_LOST,
        id="expired, at the end of a sentence",
    ),
    pytest.param(
        said("Partitions Set(refunds-0, refunds-1) have been deleted."),
        "The query no longer subscribes to refunds, of which the checkpoint has positions (refunds-0, refunds-1).",
        "If the query shall leave refunds, set failOnDataLoss=false until one batch is committed: no record of the "
        "remaining topics is lost.",
        id="unsubscribed",
    ),
    pytest.param(
        said("Partitions Set(clicks-2) have been deleted.", subscribed="Subscribe[refunds,clicks]"),
        "The partitions clicks-2 of the checkpoint no longer exist.",
        AS_LOST,
        id="deleted partition of a subscribed topic",
    ),
    pytest.param(
        said("Partitions HashSet(clicks-2, refunds-0) have been deleted."),
        "The partitions clicks-2, refunds-0 of the checkpoint no longer exist.",
        AS_LOST,
        id="left and deleted together",
    ),
    pytest.param(
        said("Partitions Set(refunds-0) have been deleted.", subscribed="SubscribePattern[re.*]"),
        "The partitions refunds-0 of the checkpoint no longer exist.",
        AS_LOST,
        id="by a pattern, which does not say what it has left",
    ),
    pytest.param(
        f"{HEAD}Set(clicks-0) are gone. Some data may have been missed.\nSome data may have been lost",
        "The partitions clicks-0 of the checkpoint no longer exist.",
        AS_LOST,
        id="deleted, 3.5",
    ),
    pytest.param(
        said(
            "Cannot find initial offsets for partitions Set(clicks-1). They may have been deleted."
        ),
        "The partitions clicks-1 of the checkpoint no longer exist.",
        AS_LOST,
        id="without initial offsets",
    ),
    pytest.param(
        said("Added partition clicks-3 starts from 17 instead of 0."),
        "Partition clicks-3 is new to the query and begins at offset 17: offsets 0 to 16 expired unread.",
        AS_LOST,
        id="added late",
    ),
    pytest.param(
        said("Starting offset for clicks-0 was 5 but consumer reset to 20."),
        "The query shall begin at offset 5 of partition clicks-0, and the topic gives 20.",
        "Correct startingOffsets",
        id="asked for what is not there",
    ),
    pytest.param(
        "OffsetOutOfRangeException: Offsets out of range with no configured reset policy for partitions: "
        "{clicks-0=20}",
        "The topic no longer holds offset 20 of partition clicks-0.",
        AS_LOST,
        id="by the client",
    ),
]


@pytest.mark.parametrize(("text", "reason", "remedy"), CASES)
def test_the_message_names_what_was_lost_and_the_remedy_loses_nothing_more(
    text: str, reason: str, remedy: str
) -> None:
    error = QueryError.from_text(text, exception_class="KafkaIllegalStateException")

    assert error.message.startswith(reason)
    assert "failOnDataLoss to false" not in error.message
    assert error.diagnosis is not None
    assert error.diagnosis.kind is FailureKind.INCOMPATIBLE
    assert remedy in error.diagnosis.remedy


def test_another_failure_that_quotes_a_partition_stays_what_it_is() -> None:
    text = (
        f"{HEAD}Task failed\n"
        "Caused by: java.net.ConnectException: Connection refused (in offset [1, 2) for topic partition a-0)"
    )

    assert lost_records("Partitions of the work were deleted") is None
    assert diagnose(text=text).kind is FailureKind.TRANSIENT
    assert QueryError.from_text(text, exception_class="ConnectException").message == "Task failed"


@pytest.mark.parametrize(
    "text",
    [
        "Set(" * 50_000,
        f"Set({'a' * 200_000}) have been deleted",
        "Partition " * 20_000 + "offset was changed from",
        f"Partition {'a-1' * 60_000} offset was changed from",
        f"OffsetOutOfRangeException: {{{'a-1' * 60_000}",
    ],
    ids=["open sets", "one long name", "partitions", "a long partition", "a long offset"],
)
def test_a_hostile_message_costs_no_time(text: str) -> None:
    begun = time.process_time()

    lost_records(text)

    assert time.process_time() - begun < 1.0
