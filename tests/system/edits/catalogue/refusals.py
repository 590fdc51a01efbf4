"""What Spark refuses in the first second of a query: operations, output modes, columns of a sink."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import CHAINED, CLICKS, CLICKS_BY_SHOP, WINDOWS
from tests.system.edits.catalogue.said import NO, YES_BUT, edit

_SELECT: Final = '"id", "user", spelled("shop").alias("shop"), "amount", "ts"'
_JSON: Final = '.format("json")\n        .trigger'
_BY: Final = '.partitionBy("shop")'


def _mode(mode: str) -> tuple[str, str]:
    return _JSON, f'.format("json")\n        .outputMode("{mode}")\n        .trigger'


def _one_more(column: str) -> tuple[str, str]:
    return _SELECT, f"{_SELECT}, {column}"


EDITS: Final = (
    edit(CLICKS, "complete_mode", "output_mode", NO, "there is no aggregation", _mode("complete")),
    edit(CLICKS, "update_mode", "output_mode", NO, "files cannot be updated", _mode("update")),
    edit(
        CLICKS,
        "growing_id",
        "expression",
        NO,
        "a stream has no such id",
        _one_more('F.monotonically_increasing_id().alias("place")'),
    ),
    edit(
        CLICKS,
        "interval_written",
        "sink",
        NO,
        "JSON has no such type",
        _one_more('F.expr("make_interval(0, 0, 0, 1)").alias("day")'),
    ),
    edit(
        CLICKS,
        "sorted",
        "stateful",
        NO,
        "a stream has no end to sort to",
        (_SELECT + "\n    )", _SELECT + '\n    ).orderBy("amount")'),
    ),
    edit(
        CLICKS,
        "ranked",
        "stateful",
        NO,
        "rows of a stream have no rank",
        _one_more('F.expr("row_number() OVER (PARTITION BY user ORDER BY ts)").alias("rank")'),
    ),
    edit(
        CLICKS,
        "limited",
        "stateful",
        NO,
        "there is no state to go on from",
        (_SELECT + "\n    )", _SELECT + "\n    ).limit(30)"),
    ),
    edit(
        CLICKS,
        "column_twice",
        "sink",
        NO,
        "a file cannot hold two columns of one name",
        _one_more('F.col("user").alias("id")'),
    ),
    edit(
        CLICKS_BY_SHOP,
        "partition_column_gone",
        "sink",
        NO,
        "the sink has no column for its folders",
        (_SELECT, '"id", "user", "amount", "ts"'),
    ),
    edit(
        CLICKS_BY_SHOP,
        "partition_column_other",
        "sink",
        NO,
        "readers find two layouts in one folder",
        (_BY, '.partitionBy("user")'),
    ),
    edit(
        CLICKS_BY_SHOP,
        "not_partitioned",
        "sink",
        NO,
        "readers find two layouts in one folder",
        (f"\n        {_BY}", ""),
    ),
    edit(
        CLICKS_BY_SHOP,
        "every_column_in_folders",
        "sink",
        NO,
        "nothing is left for the files",
        (_BY, '.partitionBy("id", "user", "shop", "amount", "ts")'),
    ),
    edit(
        CLICKS_BY_SHOP,
        "function_of_partition_column",
        "function",
        YES_BUT,
        "new rows go to other folders",
        ('shop.upper() if shop else "NONE"', 'shop.lower() if shop else "none"'),
    ),
    edit(
        CHAINED,
        "update_mode",
        "output_mode",
        NO,
        "files cannot be updated",
        (
            '.format("json")\n        .start',
            '.format("json")\n        .outputMode("update")\n        .start',
        ),
    ),
    edit(
        WINDOWS,
        "watermark_removed",
        "watermark",
        NO,
        "without a watermark no window is ever over",
        ('events.withWatermark("ts", LATENESS)', "events"),
    ),
    edit(
        WINDOWS,
        "counted_distinct",
        "aggregates",
        NO,
        "a stream counts distinct values with state of another kind",
        ('F.count("*")', 'F.countDistinct("user")'),
    ),
)
