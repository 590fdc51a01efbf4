"""A row that no run can pass: the stream stops after exactly K tries, and goes on once mended."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.records.alert import Alert, AlertKind
from airflow_streaming.model.spark.failure_signs import FailureKind
from tests.integration.stream.conftest import RealStream, first_event

RETAIL = Path(__file__).parents[4] / "shared" / "data" / "retail"
DAYS = 6
POISONED_BATCH = 3
TRIES = 3

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


@F.udf("double")
def amount(quantity, price):
    return int(quantity) * to_price(price)


def to_price(text):
    return float(text)


names = "InvoiceNo StockCode Description Quantity InvoiceDate UnitPrice CustomerID Country"
lines = (
    spark.readStream.schema(", ".join(f"{name} string" for name in names.split()))
    .options(header="true", escape='"', maxFilesPerTrigger=1)
    .csv(source)
)
amounts = lines.select("InvoiceNo", "StockCode", amount("Quantity", "UnitPrice").alias("amount"))
amounts.where("amount is not null").writeStream.queryName("numbers").format("parquet").trigger(
    processingTime="200 milliseconds"
).start(output)
"""
MENDED = SCRIPT.replace(
    "    return float(text)",
    """\
    try:
        return float(text)
    except ValueError:
        return float("nan")
""",
).replace('"amount is not null"', '"not isnan(amount)"')


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Lay out six days of real order lines, one of them with a row that cannot be read."""
    if not RETAIL.is_dir():
        pytest.skip("The retail events are not beside this repository (../shared/data/retail).")
    folder = tmp_path / "source"
    folder.mkdir()
    for number, day in enumerate(sorted(RETAIL.glob("*.csv"))[:DAYS]):
        copy = Path(shutil.copy(day, folder))
        if number == POISONED_BATCH:
            with copy.open("a") as file:
                file.write("999999,POISON,A bad row,1,2011-01-04 10:00:00,ten pounds,,France\n")
        # The file source takes files in the order of their times.
        os.utime(copy, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def expected(source: Path) -> Counter[tuple[str, str]]:
    rows: Counter[tuple[str, str]] = Counter()
    for day in source.glob("*.csv"):
        with day.open(newline="") as file:
            rows.update((row["InvoiceNo"], row["StockCode"]) for row in csv.DictReader(file))
    del rows["999999", "POISON"]
    return rows


def written(output: Path) -> Counter[tuple[str, str]]:
    rows: Counter[tuple[str, str]] = Counter()
    for batch in sorted((output / "_spark_metadata").glob("[0-9]*")):
        for line in batch.read_text().splitlines()[1:]:
            file = json.loads(line)["path"].removeprefix("file://")
            table = pyarrow.parquet.read_table(file, columns=["InvoiceNo", "StockCode"])
            rows.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return rows


async def live_on(real: RealStream, operator: Any) -> None:
    """Hand the trigger's events to the task until it ends."""
    trigger = real.run(operator)
    while real.epochs() <= 2 * TRIES:
        trigger = real.wake(trigger, operator, **(await first_event(trigger)))


@pytest.mark.nightly("Four drivers one after the other.")
async def test_a_poison_row_stops_the_stream_after_k_tries_and_a_mended_script_loses_nothing(
    real: RealStream, source: Path
) -> None:
    told: list[dict[str, Any]] = []
    policy = RestartPolicy(poison_after=TRIES)
    real.script.write_text(SCRIPT)
    spec = {"application_args": [str(source), "{output}"], "restart": policy}
    operator = real.operator(**spec)
    operator.on_gave_up = told.append

    with pytest.raises(AirflowFailException, match="Batch 3 of query 'numbers' has failed 3 times"):
        await live_on(real, operator)

    assert real.epochs() == TRIES, "exactly as many tries as the policy allows"
    decision = real.home.restart_decision(TRIES)
    assert decision is not None
    assert decision.failure_kind is FailureKind.POISON_BATCH
    gave_up = the_one(real.home.alerts(), AlertKind.GAVE_UP)
    assert "Batch 3 of query 'numbers' has failed 3 times in the same way." in gave_up.reason
    assert "could not convert string to float: 'ten pounds'" in gave_up.reason
    assert '{"logOffset":3}' in gave_up.reason
    assert [context["stream"] for context in told] == ["orders"]
    assert "'ten pounds'" in told[0]["alert_body"]

    real.script.write_text(MENDED)
    trigger = real.run(real.operator(**spec), restart=True)
    real.until(
        lambda: sum(written(real.output).values()) >= sum(expected(source).values()), "all rows"
    )
    assert real.epochs() == TRIES + 1
    assert written(real.output) == expected(source), "no row lost or doubled"
    assert trigger.watched == TRIES + 1


def the_one(alerts: tuple[Alert, ...], kind: AlertKind) -> Alert:
    (alert,) = (alert for alert in alerts if alert.alert is kind)
    return alert
