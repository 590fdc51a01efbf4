"""Stateless: projections, filters, functions, and the file sink."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import CLICKS
from tests.system.edits.catalogue.said import NO, YES, YES_BUT, edit
from tests.system.edits.edit import Changes

_SELECT: Final = '"id", "user", spelled("shop").alias("shop"), "amount", "ts"'
_SINK: Final = '.option("path", args.output)\n        .format("json")'
_JOINED: Final = """\
        clean(events).join(
            spark.createDataFrame([("S1", "Oslo")], "shop string, town string"), "shop", "left"
        )
"""
_KEEP: Final = """\
def keep(folder):
    def write(batch, number):
        import json
        from pathlib import Path

        rows = [row.asDict() for row in batch.collect()]
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"batch-{number}.json").write_text(json.dumps(rows, default=str))

    return write


def main():"""
_FOREACH: Final[Changes] = (("def main():", _KEEP), (_SINK, ".foreachBatch(keep(args.output))"))

EDITS: Final = (
    edit(
        CLICKS,
        "function_body",
        "function",
        YES_BUT,
        "same signature; what it computes is the author's",
        ('shop.upper() if shop else "NONE"', 'shop.lower() if shop else "none"'),
    ),
    edit(
        CLICKS,
        "function_other_type",
        "projection",
        NO,
        "readers find a column of two types",
        ('@F.udf("string")', '@F.udf("int")'),
        ('shop.upper() if shop else "NONE"', "len(shop)"),
    ),
    edit(
        CLICKS,
        "filter",
        "filter",
        YES_BUT,
        "what was written is not revised",
        ('"amount > 20"', '"amount > 50"'),
    ),
    edit(
        CLICKS,
        "filter_removed",
        "filter",
        YES_BUT,
        "what was written is not revised",
        ('events.where("amount > 20")', "events"),
    ),
    edit(
        CLICKS,
        "filter_in_other_words",
        "filter",
        YES_BUT,
        "the texts differ, whatever they mean",
        ('"amount > 20"', '~(F.col("amount") <= 20)'),
    ),
    edit(
        CLICKS,
        "projection_same_schema",
        "projection",
        YES_BUT,
        "what was written is not revised",
        ('"amount", "ts"', '(F.col("amount") * 2).alias("amount"), "ts"'),
    ),
    edit(
        CLICKS,
        "column_added",
        "projection",
        YES_BUT,
        "the file sink takes another schema",
        (_SELECT, _SELECT + ', "kind"'),
    ),
    edit(
        CLICKS,
        "column_removed",
        "projection",
        YES_BUT,
        "the file sink takes another schema",
        (', "ts"\n', "\n"),
    ),
    edit(
        CLICKS,
        "column_type",
        "projection",
        NO,
        "readers find a column of two types",
        ('"amount", "ts"', 'F.col("amount").cast("string").alias("amount"), "ts"'),
    ),
    edit(
        CLICKS,
        "column_renamed",
        "projection",
        YES_BUT,
        "the files get a column of two names",
        ('"amount", "ts"', 'F.col("amount").alias("cents"), "ts"'),
    ),
    edit(
        CLICKS,
        "columns_in_other_order",
        "projection",
        YES_BUT,
        "by name the files say the same",
        ('"amount", "ts"', '"ts", "amount"'),
    ),
    edit(
        CLICKS,
        "explode",
        "projection",
        YES_BUT,
        "other rows from here on",
        (_SELECT, _SELECT + ', F.explode(F.array(F.lit("a"), F.lit("b"))).alias("half")'),
    ),
    edit(
        CLICKS,
        "table_joined",
        "projection",
        YES_BUT,
        "a table keeps no state",
        (
            "        clean(events)\n",
            _JOINED,
        ),
    ),
    edit(
        CLICKS,
        "repartitioned",
        "projection",
        YES,
        "no row is another",
        (_SELECT + "\n    )", _SELECT + "\n    ).repartition(3)"),
    ),
    edit(
        CLICKS,
        "query_renamed",
        "query",
        YES,
        "its checkpoint is where the script says",
        ('queryName("clicks")', 'queryName("clean_clicks")'),
    ),
    edit(
        CLICKS,
        "processing_trigger",
        "trigger",
        YES,
        "only when batches begin",
        ('"5 seconds"', '"30 seconds"'),
    ),
    edit(
        CLICKS,
        "shuffle_partitions",
        "conf",
        YES,
        "without state nothing is partitioned for good",
        ('appName("clicks")', 'appName("clicks").config("spark.sql.shuffle.partitions", "5")'),
    ),
    edit(
        CLICKS,
        "sink_path",
        "sink",
        NO,
        "the published list forbids another path of a file sink",
        ('"path", args.output', '"path", args.output + "_v2"'),
    ),
    edit(
        CLICKS,
        "sink_format",
        "sink",
        NO,
        "readers find files of two formats in one folder",
        ('.format("json")\n        .trigger', '.format("parquet")\n        .trigger'),
    ),
    edit(
        CLICKS,
        "sink_partitioned",
        "sink",
        NO,
        "readers find two layouts in one folder",
        (
            '.format("json")\n        .trigger',
            '.format("json").partitionBy("user")\n        .trigger',
        ),
    ),
    edit(
        CLICKS,
        "sink_compressed",
        "sink",
        YES_BUT,
        "new files are written in another way",
        (
            '.format("json")\n        .trigger',
            '.format("json").option("lineSep", "\\n")\n        .trigger',
        ),
    ),
    edit(
        CLICKS,
        "sink_to_foreach_batch",
        "sink",
        YES_BUT,
        "the function gets new batches only",
        *_FOREACH,
    ),
    edit(
        CLICKS,
        "aggregated",
        "stateful",
        NO,
        "there is no state to go on from",
        (
            _SELECT + "\n    )",
            _SELECT
            + '\n    ).withWatermark("ts", "10 seconds").groupBy(F.window("ts", "20 seconds")).count()',
        ),
    ),
    edit(
        CLICKS,
        "deduplicated",
        "stateful",
        NO,
        "there is no state to go on from",
        (_SELECT + "\n    )", _SELECT + '\n    ).dropDuplicates(["id"])'),
    ),
    edit(
        CLICKS,
        "watermark_added",
        "watermark",
        YES,
        "without state a watermark drops nothing",
        (_SELECT + "\n    )", _SELECT + '\n    ).withWatermark("ts", "1 second")'),
    ),
)
