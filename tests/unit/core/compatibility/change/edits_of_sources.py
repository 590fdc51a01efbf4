"""Edits of sources."""

from __future__ import annotations

from typing import Final

from tests.unit.core.compatibility.change import builders as b
from tests.unit.core.compatibility.change.edit import (
    CSV,
    KAFKA,
    NAMED,
    NO,
    RATE,
    STATELESS,
    TOLD,
    TWO,
    UNKNOWN,
    YES,
    drop_source,
    edit_of,
    schema,
    swap,
)

SOURCES: Final = (
    edit_of("one source more", STATELESS, TWO, "source.number", NO),
    edit_of("one source less", TWO, drop_source(TWO), "source.number", NO),
    edit_of("file to rate", STATELESS, RATE, "source.type", NO),
    edit_of("two sources swapped", TWO, swap(TWO), "source.order", NO),
    edit_of(
        "another folder", STATELESS, b.with_source(STATELESS, paths=("/x",)), "source.paths", NO
    ),
    edit_of(
        "another format", STATELESS, b.with_source(STATELESS, format="text"), "source.format", NO
    ),
    edit_of(
        "a topic more",
        KAFKA,
        b.with_source(KAFKA, paths=("subscribe a,b,c",)),
        "source.topics",
        NO,
    ),
    edit_of(
        "a pattern for topics",
        KAFKA,
        b.with_source(KAFKA, paths=("subscribepattern .*",)),
        "source.topics",
        NO,
    ),
    edit_of("names for sources", TWO, NAMED, "source.naming", NO),
    edit_of("a named source less", NAMED, drop_source(NAMED), "source.named_set", TOLD),
    edit_of("named sources swapped", NAMED, swap(NAMED), "source.named_order", YES),
    edit_of(
        "rate limit of files",
        STATELESS,
        b.with_options(STATELESS, maxfilespertrigger="1"),
        "source.rate_limit",
        YES,
    ),
    edit_of(
        "rate limit of Kafka",
        KAFKA,
        b.with_options(KAFKA, maxoffsetspertrigger="9"),
        "source.rate_limit",
        YES,
    ),
    edit_of(
        "starting offsets",
        KAFKA,
        b.with_options(KAFKA, startingoffsets="latest"),
        "source.start",
        YES,
    ),
    edit_of(
        "a consumer's setting",
        KAFKA,
        b.with_options(KAFKA, kafka__group__id="g"),
        "source.connection",
        YES,
    ),
    edit_of(
        "other brokers",
        KAFKA,
        b.with_options(KAFKA, kafka__bootstrap__servers="two:9092"),
        "source.cluster",
        UNKNOWN,
    ),
    edit_of(
        "loss passed over",
        KAFKA,
        b.with_options(KAFKA, failondataloss="false"),
        "source.data_loss",
        TOLD,
    ),
    edit_of(
        "loss fails again",
        b.with_options(KAFKA, failondataloss="false"),
        KAFKA,
        "source.data_loss_guarded",
        YES,
    ),
    edit_of(
        "how files are parsed",
        STATELESS,
        b.with_options(STATELESS, multiline="true"),
        "source.reading",
        TOLD,
    ),
    edit_of(
        "which files are taken",
        STATELESS,
        b.with_options(STATELESS, pathglobfilter="*.a"),
        "source.choice",
        NO,
    ),
    edit_of(
        "files deleted",
        STATELESS,
        b.with_options(STATELESS, cleansource="delete"),
        "source.cleaning",
        TOLD,
    ),
    edit_of(
        "rows of the rate source",
        RATE,
        b.with_options(RATE, rowspersecond="9"),
        "source.rate_values",
        NO,
    ),
    edit_of(
        "an option of a stranger",
        b.with_source(STATELESS, source="x.Source"),
        b.with_options(b.with_source(STATELESS, source="x.Source"), a="1"),
        "source.option",
        UNKNOWN,
    ),
    edit_of(
        "a source column more",
        STATELESS,
        schema(STATELESS, "k string, v bigint, ts timestamp, w int"),
        "source.column_added",
        TOLD,
    ),
    edit_of(
        "a source column less",
        STATELESS,
        schema(STATELESS, "k string, v bigint"),
        "source.column_removed",
        TOLD,
    ),
    edit_of(
        "a wider source column",
        schema(STATELESS, "v int"),
        schema(STATELESS, "v bigint"),
        "source.column_widened",
        TOLD,
    ),
    edit_of(
        "another type of a source column",
        STATELESS,
        schema(STATELESS, "k string, v string, ts timestamp"),
        "source.column_type",
        NO,
    ),
    edit_of(
        "a csv column at the front",
        CSV,
        schema(CSV, "w int, k string, v bigint, ts timestamp"),
        "source.column_places",
        NO,
    ),
    edit_of(
        "a csv column renamed",
        CSV,
        schema(CSV, "k string, w bigint, ts timestamp"),
        "source.column_renamed",
        TOLD,
    ),
    edit_of(
        "csv columns swapped",
        CSV,
        schema(CSV, "v bigint, k string, ts timestamp"),
        "source.column_places",
        NO,
    ),
    edit_of(
        "a csv column at the end",
        CSV,
        schema(CSV, "k string, v bigint, ts timestamp, w int"),
        "source.column_added",
        TOLD,
    ),
)
