"""Deduplication: its columns, its sort, what lies above and below it."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import FIRST_EVER, FIRST_SEEN
from tests.system.edits.catalogue.said import NO, YES_BUT, edit

_DROP: Final = 'dropDuplicates(["id", "user", "ts"])'
_EVER: Final = 'dropDuplicates(["user", "kind"])'
_SELECT: Final = '.select("id", "user", "kind", F.col("amount"))'

EDITS: Final = (
    edit(
        FIRST_SEEN,
        "column_added",
        "dedup",
        NO,
        "the state has another key",
        (_DROP, 'dropDuplicates(["id", "user", "kind", "ts"])'),
    ),
    edit(
        FIRST_SEEN,
        "column_removed",
        "dedup",
        NO,
        "the state has another key",
        (_DROP, 'dropDuplicates(["id", "ts"])'),
    ),
    edit(
        FIRST_SEEN,
        "other_column",
        "dedup",
        NO,
        "a string is a string to Spark",
        (_DROP, 'dropDuplicates(["id", "shop", "ts"])'),
    ),
    edit(
        FIRST_SEEN,
        "columns_in_other_order",
        "dedup",
        NO,
        "Spark keeps the author's order",
        (_DROP, 'dropDuplicates(["ts", "id", "user"])'),
    ),
    edit(
        FIRST_SEEN,
        "within_watermark",
        "dedup",
        NO,
        "the state is of something else",
        (_DROP, 'dropDuplicatesWithinWatermark(["id", "user", "ts"])'),
    ),
    edit(
        FIRST_SEEN,
        "removed",
        "stateful",
        NO,
        "the state would be left behind",
        (f"\n        .{_DROP}", ""),
    ),
    edit(
        FIRST_SEEN,
        "to_aggregation",
        "stateful",
        NO,
        "the state is of something else",
        (f".{_DROP}\n        {_SELECT}", '.groupBy("id", "user", "ts").count()'),
    ),
    edit(
        FIRST_SEEN,
        "projection_above",
        "projection",
        YES_BUT,
        "what was written is not revised",
        ('F.col("amount"))', '(F.col("amount") + 1).alias("amount"))'),
    ),
    edit(
        FIRST_SEEN,
        "filter_above",
        "filter",
        YES_BUT,
        "what was written is not revised",
        (_SELECT, f'{_SELECT}.where("amount > 20")'),
    ),
    edit(
        FIRST_SEEN,
        "filter_below",
        "filter",
        YES_BUT,
        "a filter in front lets fewer in",
        ("events.withWatermark", 'events.where("amount > 20").withWatermark'),
    ),
    edit(
        FIRST_SEEN,
        "watermark_longer",
        "watermark",
        YES_BUT,
        "what was forgotten stays so",
        ('"10 seconds"', '"40 seconds"'),
    ),
    edit(
        FIRST_EVER,
        "columns_in_other_order",
        "dedup",
        NO,
        "users would be kinds",
        (_EVER, 'dropDuplicates(["kind", "user"])'),
    ),
    edit(
        FIRST_EVER,
        "other_column",
        "dedup",
        NO,
        "a string is a string to Spark",
        (_EVER, 'dropDuplicates(["user", "shop"])'),
    ),
    edit(
        FIRST_EVER,
        "watermark_added",
        "watermark",
        YES_BUT,
        "late rows are dropped from here on",
        ("events.dropDuplicates", 'events.withWatermark("ts", "10 seconds").dropDuplicates'),
    ),
    edit(
        FIRST_EVER,
        "filter_below",
        "filter",
        NO,
        "what was seen for ever stays seen",
        ("events.dropDuplicates", 'events.where("amount > 20").dropDuplicates'),
    ),
)
