"""Totals that are kept for ever: keys, aggregates, state stores."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import TOTALS, TOTALS_ROCKSDB
from tests.system.edits.catalogue.said import NO, YES, YES_BUT, edit
from tests.system.edits.edit import CHANGELOG, PROVIDER, ROCKSDB_PROVIDER

_TOTAL: Final = 'F.sum("amount").alias("total")'
_NUMBER: Final = 'F.count("*").alias("number")'
_KEYS: Final = 'groupBy("user", "kind")'
_UPDATE: Final = '.outputMode("update")'


def _conf(app: str, key: str, value: str) -> tuple[str, str]:
    return f'appName("{app}")', f'appName("{app}").config("{key}", "{value}")'


EDITS: Final = (
    edit(
        TOTALS,
        "sum_to_max",
        "aggregates",
        NO,
        "sums would be taken for maxima",
        (_TOTAL, 'F.max("amount").alias("total")'),
    ),
    edit(
        TOTALS,
        "other_amount",
        "aggregates",
        NO,
        "sums of something else would go on",
        (_TOTAL, 'F.sum(F.col("amount") * 2).alias("total")'),
    ),
    edit(
        TOTALS,
        "sum_to_avg",
        "aggregates",
        NO,
        "the state has another shape",
        (_TOTAL, 'F.avg("amount").alias("total")'),
    ),
    edit(
        TOTALS,
        "long_to_double",
        "aggregates",
        NO,
        "the state has another type",
        (_TOTAL, 'F.sum("price").alias("total")'),
    ),
    edit(
        TOTALS,
        "count_of_column",
        "aggregates",
        NO,
        "nulls were counted before",
        ('F.count("*")', 'F.count("kind")'),
    ),
    edit(
        TOTALS,
        "totals_in_other_order",
        "aggregates",
        NO,
        "each would go on from the other's",
        (f"{_TOTAL}, {_NUMBER}", f"{_NUMBER}, {_TOTAL}"),
    ),
    edit(
        TOTALS,
        "total_added",
        "aggregates",
        NO,
        "the state has no place for it",
        (_NUMBER, _NUMBER + ', F.min("amount").alias("least")'),
    ),
    edit(TOTALS, "total_removed", "aggregates", NO, "the state has one more", (f", {_NUMBER}", "")),
    edit(
        TOTALS,
        "total_renamed",
        "projection",
        YES_BUT,
        "the state's column has no such name",
        ('.alias("total")', '.alias("spent")'),
    ),
    edit(
        TOTALS,
        "computed_above",
        "projection",
        YES_BUT,
        "what was written is not revised",
        (f"{_NUMBER}\n    )", f'{_NUMBER}\n    ).withColumn("each", F.expr("total / number"))'),
    ),
    edit(
        TOTALS,
        "other_key",
        "keys",
        NO,
        "a string is a string to Spark",
        (_KEYS, 'groupBy("user", F.col("shop").alias("kind"))'),
    ),
    edit(
        TOTALS,
        "keys_in_other_order",
        "keys",
        NO,
        "users would be kinds",
        (_KEYS, 'groupBy("kind", "user")'),
    ),
    edit(
        TOTALS,
        "key_added",
        "keys",
        NO,
        "the state has another key",
        (_KEYS, 'groupBy("user", "kind", "shop")'),
    ),
    edit(
        TOTALS, "key_removed", "keys", NO, "the state has another key", (_KEYS, 'groupBy("user")')
    ),
    edit(
        TOTALS,
        "key_type",
        "keys",
        NO,
        "the state has another key",
        (_KEYS, 'groupBy("user", F.length("kind").alias("kind"))'),
    ),
    edit(
        TOTALS,
        "filter_below",
        "filter",
        NO,
        "totals for ever hold what is now left out",
        ("events.groupBy", 'events.where("amount > 20").groupBy'),
    ),
    edit(
        TOTALS,
        "filter_above",
        "filter",
        YES_BUT,
        "what was written is not revised",
        (f"{_NUMBER}\n    )", f'{_NUMBER}\n    ).where("number > 2")'),
    ),
    edit(
        TOTALS,
        "update_to_complete",
        "output_mode",
        NO,
        "each batch is the whole table now",
        (_UPDATE, '.outputMode("complete")'),
    ),
    edit(
        TOTALS,
        "foreach_batch_body",
        "sink",
        YES_BUT,
        "what it means is the author's",
        ("json.dumps(rows, default=str)", "json.dumps(rows, default=str, indent=1)"),
    ),
    edit(
        TOTALS,
        "shuffle_partitions",
        "conf",
        YES,
        "the checkpoint's number stays in force, whatever the code says",
        _conf("totals", "spark.sql.shuffle.partitions", "5"),
    ),
    edit(
        TOTALS,
        "state_store",
        "conf",
        YES_BUT,
        "the checkpoint's store stays in force",
        _conf("totals", PROVIDER, ROCKSDB_PROVIDER),
    ),
    edit(
        TOTALS,
        "aggregation_removed",
        "stateful",
        NO,
        "the state would be left behind",
        ("totals(events)\n        .writeStream", "events\n        .writeStream"),
    ),
    edit(
        TOTALS,
        "to_deduplication",
        "stateful",
        NO,
        "the state is of something else",
        (
            "totals(events)\n        .writeStream",
            'events.dropDuplicates(["user", "kind"])\n        .writeStream',
        ),
    ),
    edit(
        TOTALS,
        "deduplicated_below",
        "stateful",
        NO,
        "the state has no such operator",
        ("events.groupBy", 'events.dropDuplicates(["id"]).groupBy'),
    ),
    edit(
        TOTALS_ROCKSDB,
        "sum_to_max",
        "aggregates",
        NO,
        "sums would be taken for maxima",
        (_TOTAL, 'F.max("amount").alias("total")'),
    ),
    edit(
        TOTALS_ROCKSDB,
        "total_added",
        "aggregates",
        NO,
        "the state has no place for it",
        (_NUMBER, _NUMBER + ', F.min("amount").alias("least")'),
    ),
    edit(
        TOTALS_ROCKSDB,
        "changelog",
        "conf",
        YES,
        "both sorts of files are read",
        _conf("totals", CHANGELOG, "true"),
    ),
    edit(
        TOTALS_ROCKSDB,
        "state_store",
        "conf",
        YES_BUT,
        "the checkpoint's store stays in force",
        _conf("totals", PROVIDER, ROCKSDB_PROVIDER.replace("RocksDB", "HDFSBacked")),
    ),
    edit(
        TOTALS,
        "filter_of_key_above",
        "filter",
        NO,
        "Spark applies it in front of totals that are kept for ever",
        (f"{_NUMBER}\n    )", f"{_NUMBER}\n    ).where(\"user = 'u1'\")"),
    ),
    edit(
        TOTALS,
        "filter_of_both_keys_above",
        "filter",
        NO,
        "Spark applies it in front of totals that are kept for ever",
        (f"{_NUMBER}\n    )", f"{_NUMBER}\n    ).where(\"user = 'u1' OR kind = 'k1'\")"),
    ),
)
