"""Windows, sessions, and what is chained to them: lengths, gaps, watermarks, output modes."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import CHAINED, SESSIONS, WINDOWS, WINDOWS_UPDATED
from tests.system.edits.catalogue.said import NO, YES_BUT, edit

_UPDATE: Final = '.outputMode("update")'
_APPEND: Final = '.outputMode("append")'
_WINDOW: Final = 'F.window("ts", "20 seconds")'

EDITS: Final = (
    edit(
        WINDOWS,
        "window",
        "window",
        NO,
        "the state has windows of another length",
        (_WINDOW, 'F.window("ts", "30 seconds")'),
    ),
    edit(
        WINDOWS,
        "window_start",
        "window",
        NO,
        "windows begin at other times",
        (_WINDOW, 'F.window("ts", "20 seconds", "20 seconds", "5 seconds")'),
    ),
    edit(
        WINDOWS,
        "watermark_longer",
        "watermark",
        YES_BUT,
        "what was dropped stays dropped",
        ('LATENESS = "10 seconds"', 'LATENESS = "30 seconds"'),
    ),
    edit(
        WINDOWS,
        "watermark_shorter",
        "watermark",
        YES_BUT,
        "more is dropped from here on",
        ('LATENESS = "10 seconds"', 'LATENESS = "0 seconds"'),
    ),
    edit(
        WINDOWS,
        "append_to_update",
        "output_mode",
        NO,
        "other rows mean other things",
        (_APPEND, _UPDATE),
    ),
    edit(
        WINDOWS,
        "append_to_complete",
        "output_mode",
        NO,
        "closed windows are gone",
        (_APPEND, '.outputMode("complete")'),
    ),
    edit(
        WINDOWS,
        "filter_below",
        "filter",
        YES_BUT,
        "open windows hold what was let through",
        ("events.withWatermark", 'events.where("amount > 20").withWatermark'),
    ),
    edit(
        WINDOWS,
        "shop_respelled_below",
        "projection",
        NO,
        "the keys of open windows stay",
        ("events.withWatermark", 'events.withColumn("shop", F.upper("shop")).withWatermark'),
    ),
    edit(
        WINDOWS,
        "amount_doubled_below",
        "projection",
        NO,
        "open windows hold half of it",
        ("events.withWatermark", 'events.withColumn("amount", F.expr("amount * 2")).withWatermark'),
    ),
    edit(
        WINDOWS,
        "to_session",
        "stateful",
        NO,
        "the state is of something else",
        (_WINDOW, 'F.session_window("ts", "20 seconds").alias("window")'),
    ),
    edit(
        WINDOWS,
        "column_not_shown",
        "aggregates",
        NO,
        "what nobody reads is not computed",
        (', "total", "number")', ', "total")'),
    ),
    edit(
        WINDOWS,
        "key_not_shown",
        "projection",
        YES_BUT,
        "the state still has the key",
        ('alias("begin"), "shop", ', 'alias("begin"), '),
    ),
    edit(
        WINDOWS_UPDATED,
        "update_to_append",
        "output_mode",
        NO,
        "other rows mean other things",
        (_UPDATE, _APPEND),
    ),
    edit(
        WINDOWS_UPDATED,
        "watermark_removed",
        "watermark",
        NO,
        "state grows for ever",
        ('events.withWatermark("ts", LATENESS)', "events"),
    ),
    edit(
        WINDOWS_UPDATED,
        "window",
        "window",
        NO,
        "the state has windows of another length",
        (_WINDOW, 'F.window("ts", "30 seconds")'),
    ),
    edit(
        SESSIONS,
        "gap",
        "window",
        NO,
        "open sessions were cut at another gap",
        ('F.session_window("ts", "5 seconds")', 'F.session_window("ts", "9 seconds")'),
    ),
    edit(
        SESSIONS,
        "total_added",
        "aggregates",
        NO,
        "the state has no place for it",
        (
            'F.count("*").alias("number"))',
            'F.count("*").alias("number"), F.sum("amount").alias("spent"))',
        ),
        ('"begin"), "user", "number")', '"begin"), "user", "number", "spent")'),
    ),
    edit(
        SESSIONS,
        "other_key",
        "keys",
        NO,
        "a string is a string to Spark",
        ('alias("visit"), "user")', 'alias("visit"), F.col("shop").alias("user"))'),
    ),
    edit(
        SESSIONS,
        "session_to_window",
        "stateful",
        NO,
        "the state is of something else",
        ('F.session_window("ts", "5 seconds")', 'F.window("ts", "5 seconds")'),
    ),
    edit(
        CHAINED,
        "deduplication_removed",
        "stateful",
        NO,
        "the state would be left behind",
        ('\n        .dropDuplicates(["id", "ts"])', ""),
    ),
    edit(
        CHAINED,
        "deduplication_other",
        "stateful",
        NO,
        "other columns are deduplicated",
        ('["id", "ts"]', '["user", "ts"]'),
    ),
    edit(
        CHAINED,
        "filter_between",
        "filter",
        YES_BUT,
        "open windows hold what was let through",
        (
            '.dropDuplicates(["id", "ts"])',
            '.dropDuplicates(["id", "ts"])\n        .where("amount > 20")',
        ),
    ),
)
