"""The bases: scripts of every shape, some of them on more than one state store."""

from __future__ import annotations

from typing import Final

from tests.system.edits.edit import CHANGELOG, DAG_JOBS, PROVIDER, ROCKSDB_PROVIDER, Base, job

ROCKSDB: Final = {PROVIDER: ROCKSDB_PROVIDER}

REVENUE: Final = Base(
    name="revenue",
    script=DAG_JOBS / "retail_revenue.py",
    arguments=("--input", "{run}/input/orders", "--output", "{run}/output/main"),
)
CLICKS: Final = Base(name="clicks", script=job("clicks"))
CLICKS_BY_SHOP: Final = Base(
    name="clicks_by_shop",
    script=job("clicks"),
    changes=(
        (
            '.format("json")\n        .trigger',
            '.format("json")\n        .partitionBy("shop")\n        .trigger',
        ),
    ),
)
BOTH: Final = Base(name="both", script=job("both"))
TOTALS: Final = Base(name="totals", script=job("totals"))
MINUTES: Final = Base(
    name="minutes",
    script=job("totals"),
    changes=(
        (
            'groupBy("user", "kind")',
            'groupBy(F.date_format("ts", "yyyy-MM-dd HH:mm").alias("minute"), "kind")',
        ),
    ),
)
LEDGER: Final = Base(name="ledger", script=job("ledger"))
PARSED: Final = Base(name="parsed", script=job("parsed"))
PARSED_ONCE: Final = Base(
    name="parsed_once",
    script=job("parsed"),
    changes=(
        (
            'sales.groupBy("shop").agg(F.sum("amount").alias("total"), F.count("id").alias("number"))',
            'sales.dropDuplicates(["id"])',
        ),
    ),
)
HIDDEN: Final = Base(name="hidden", script=job("hidden"))
FRAMES: Final = Base(name="frames", script=job("frames"))
TOTALS_ROCKSDB: Final = Base(name="totals_rocksdb", script=job("totals"), conf=ROCKSDB)
WINDOWS: Final = Base(name="windows", script=job("windows"))
WINDOWS_UPDATED: Final = Base(
    name="windows_updated",
    script=job("windows"),
    changes=(('.outputMode("append")', '.outputMode("update")'),),
    conf={**ROCKSDB, CHANGELOG: "true"},
)
_BOOKED: Final = (
    (
        'events.withWatermark("ts", LATENESS)',
        (
            'events.withColumn("booked", F.expr("ts + INTERVAL 7 SECONDS"))\n'
            '        .withWatermark("ts", LATENESS)'
        ),
    ),
    ('.outputMode("append")', '.outputMode("update")'),
)
WINDOWS_BOOKED: Final = Base(name="windows_booked", script=job("windows"), changes=_BOOKED)
WINDOWS_ENDLESS: Final = Base(
    name="windows_endless",
    script=job("windows"),
    changes=(*_BOOKED, ('F.window("ts",', 'F.window("booked",')),
)
WINDOWS_QUOTED: Final = Base(
    name="windows_quoted",
    script=job("windows"),
    changes=(
        *WINDOWS_ENDLESS.changes,
        ('F.sum("amount").alias("total")', 'F.sum("amount").alias("total (EUR, gross)")'),
        ('"total", "number")', '"`total (EUR, gross)`", "number")'),
    ),
)
FIRST_SEEN: Final = Base(name="first_seen", script=job("first_seen"))
FIRST_EVER: Final = Base(
    name="first_ever",
    script=job("first_seen"),
    changes=(
        (
            'events.withWatermark("ts", "10 seconds")\n        .dropDuplicates(["id", "user", "ts"])',
            'events.dropDuplicates(["user", "kind"])',
        ),
    ),
)
PAIRS: Final = Base(name="pairs", script=job("pairs"))
PAIRS_OUTER: Final = Base(
    name="pairs_outer", script=job("pairs"), changes=(('"inner"', '"left_outer"'),), conf=ROCKSDB
)
PAIRS_ENDLESS: Final = Base(
    name="pairs_endless",
    script=job("pairs"),
    changes=(
        ('sales.withWatermark("ts", "10 seconds")', "sales"),
        ('payments.withWatermark("at", "10 seconds")', "payments"),
        ("id = sale AND at >= ts AND at <= ts + INTERVAL 5 SECONDS", "id = sale"),
    ),
)
SESSIONS: Final = Base(name="sessions", script=job("sessions"))
PURSES: Final = Base(name="purses", script=job("purses"))
PROFILES: Final = Base(name="profiles", script=job("profiles"), conf=ROCKSDB, oldest="4.0")
PROFILES_AVRO: Final = Base(
    name="profiles_avro",
    script=job("profiles"),
    conf={**ROCKSDB, "spark.sql.streaming.stateStore.encodingFormat": "avro"},
    oldest="4.0",
)
PROFILES_AVRO_WIDE: Final = Base(
    name="profiles_avro_wide",
    script=job("profiles"),
    changes=(
        ('"amount long")', '"amount long, last int")'),
        ("self._spent.update((spent,))", "self._spent.update((spent, 1))"),
    ),
    conf=PROFILES_AVRO.conf,
    oldest="4.0",
)
DESK: Final = Base(name="desk", script=job("desk"))
CHAINED: Final = Base(name="chained", script=job("chained"), conf=ROCKSDB)

BASES: Final = (
    TOTALS,
    WINDOWS,
    REVENUE,
    CLICKS,
    PROFILES,
    PURSES,
    PAIRS,
    FIRST_SEEN,
    DESK,
    BOTH,
    FIRST_EVER,
    SESSIONS,
    WINDOWS_UPDATED,
    PROFILES_AVRO,
    PROFILES_AVRO_WIDE,
    PAIRS_OUTER,
    CHAINED,
    TOTALS_ROCKSDB,
    HIDDEN,
    FRAMES,
    LEDGER,
    MINUTES,
    WINDOWS_BOOKED,
    WINDOWS_ENDLESS,
    WINDOWS_QUOTED,
    PAIRS_ENDLESS,
    CLICKS_BY_SHOP,
    PARSED,
    PARSED_ONCE,
)
