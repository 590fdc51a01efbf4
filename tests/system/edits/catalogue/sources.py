"""Sources: number, order, sort, parameters."""

from __future__ import annotations

from typing import Final

from tests.system.edits.bases import BOTH, CLICKS
from tests.system.edits.catalogue.said import NO, YES, YES_BUT, edit

_READ: Final = (
    'spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{args.input}/events")'
)
_UNION: Final = "sales.union(payments)"

EDITS: Final = (
    edit(
        CLICKS,
        "rate_limit",
        "source",
        YES,
        "only how much a batch takes",
        ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2'),
    ),
    edit(
        CLICKS,
        "rate_limit_removed",
        "source",
        YES,
        "only how much a batch takes",
        ('.option("maxFilesPerTrigger", 1)', ""),
    ),
    edit(
        CLICKS,
        "source_path",
        "source",
        NO,
        "its log tells of files of another folder",
        ("{args.input}/events", "{args.input}/moved"),
    ),
    edit(
        CLICKS,
        "source_pattern",
        "source",
        NO,
        "other files are read than before",
        ('{args.input}/events"', '{args.input}/events/*.json"'),
    ),
    edit(
        CLICKS,
        "source_glob",
        "source",
        NO,
        "other files are read than before",
        (
            '"maxFilesPerTrigger", 1)',
            '"maxFilesPerTrigger", 1).option("pathGlobFilter", "*5.json")',
        ),
    ),
    edit(
        CLICKS,
        "source_newest_first",
        "source",
        NO,
        "files come in another order",
        ('"maxFilesPerTrigger", 1)', '"maxFilesPerTrigger", 1).option("latestFirst", "true")'),
    ),
    edit(
        CLICKS,
        "source_format",
        "source",
        NO,
        "the same files are read as something else",
        ('.json(f"{args.input}/events")', '.format("csv").load(f"{args.input}/events")'),
    ),
    edit(
        CLICKS,
        "source_rate",
        "source",
        NO,
        "an offset of files is no offset of a rate",
        (
            _READ,
            'spark.readStream.format("rate").load().selectExpr("cast(value as string) id", "\'u\' user", "\'k\' kind", "\'s\' shop", "value + 50 amount", "1.0D price", "timestamp ts")',
        ),
    ),
    edit(
        CLICKS,
        "source_column_added",
        "source",
        YES_BUT,
        "what was read before had no such column",
        ('ts timestamp"', 'ts timestamp, town string"'),
    ),
    edit(
        CLICKS,
        "source_column_unused_removed",
        "source",
        YES_BUT,
        "the column is not used",
        ("price double, ", ""),
    ),
    edit(
        CLICKS,
        "source_column_type",
        "source",
        NO,
        "what is read and written has another type",
        ("amount long", "amount double"),
    ),
    edit(
        CLICKS,
        "second_source",
        "source",
        NO,
        "the offset log has one source",
        (
            "        clean(events)\n",
            '        clean(events.union(spark.readStream.schema(EVENT).json(f"{args.input}/moved")))\n',
        ),
    ),
    edit(
        BOTH,
        "source_removed",
        "source",
        NO,
        "the offset log has two sources",
        (_UNION, "sales"),
    ),
    edit(
        BOTH,
        "sources_swapped",
        "source",
        NO,
        "each would go on from the other's position",
        (_UNION, "payments.union(sales)"),
    ),
    edit(
        BOTH,
        "source_twice",
        "source",
        NO,
        "the offset log has two sources",
        (_UNION, _UNION + ".union(sales)"),
    ),
    edit(
        BOTH,
        "source_replaced",
        "source",
        NO,
        "the second source goes on from another one's position",
        (
            _UNION,
            'sales.union(reader.schema(EVENT).json(f"{args.input}/moved").selectExpr("id", "amount"))',
        ),
    ),
    edit(
        BOTH,
        "rate_limit",
        "source",
        YES,
        "only how much a batch takes",
        ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 3'),
    ),
)
