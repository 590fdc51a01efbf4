"""
``airflow-streaming conf``: what the production profile gives a stream, and why.

It needs neither Spark nor a home. With the name of a stream it also reads that stream's newest
deployment, and so shows what the profile would change there and what its checkpoint keeps.
"""

from __future__ import annotations

import json
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_streaming.cli.table import columns, printable
from airflow_streaming.core.conf import check_conf_key, parse_spark_version
from airflow_streaming.core.profile.profile import Profile, StateStore, production
from airflow_streaming.core.profile.resolution import ConfSource, ConfValue, resolve
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome

WIDTH: Final = 96
OK: Final = 0


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--spark", required=True, metavar="VERSION", help="e.g. 4.3")
    parser.add_argument(
        "--cores", required=True, type=int, metavar="N", help="cores of all executors together"
    )
    parser.add_argument(
        "--state-store",
        choices=[store.value for store in StateStore],
        default=StateStore.ROCKSDB.value,
        help="where state is kept (default: %(default)s)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="a value of the stream's own conf; not for secrets",
    )
    parser.add_argument(
        "stream", nargs="?", metavar="STREAM", help="a stream of the home, as it is deployed now"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _setting(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    try:
        check_conf_key(key)
    except SpecError as err:
        raise ArgumentTypeError(str(err)) from err
    if not found:
        raise ArgumentTypeError(f"{key!r} has no value. Write {key}=VALUE.")
    return key, value


def show_conf(arguments: Namespace, stream: StreamHome | None) -> int:
    """
    Print what Spark would get.

    :param stream: The stream whose newest deployment's checkpoint goes on; ``None`` for a new one.
    :raises SpecError: not a Spark version, one that is too old, or a knob out of its range.
    """
    profile = production(cores=arguments.cores, state_store=StateStore(arguments.state_store))
    spark = _known(arguments.spark)
    current = stream.newest_deployment() if stream is not None else None
    values = resolve(
        profile,
        spark,
        dict(arguments.set),
        carried_on=current.conf if current is not None else None,
    )
    if arguments.json:
        told = {**_report(profile, arguments.spark, values), "profile_of": spark}
        print(json.dumps(told, indent=2))
    else:
        if spark != arguments.spark:
            print(_NEWER.format(asked=arguments.spark, newest=spark))
        print("\n".join(printable(line) for line in _table(profile, spark, values)))
    return OK


def _known(spark: str) -> str:
    """
    Return the version whose profile is shown: the newest known one for a newer Spark.

    :raises SpecError: not a version, or one that is too old.
    """
    # Not at the top: every command on a home loads this module.
    from airflow_streaming.launch.runtime import NEWEST_SPARK, OLDEST_SPARK

    minor = parse_spark_version(spark)[:2]
    if minor < OLDEST_SPARK:
        raise SpecError(
            f"Spark {spark} is older than {_text(OLDEST_SPARK)}, the oldest that this release runs, "
            f"so there is no profile for it. Give a version from there to {_text(NEWEST_SPARK)}."
        )
    return spark if minor <= NEWEST_SPARK else _text(NEWEST_SPARK)


def _text(minor: tuple[int, int]) -> str:
    return ".".join(map(str, minor))


def _report(profile: Profile, spark: str, values: Sequence[ConfValue]) -> Mapping[str, Any]:
    return {
        "profile": profile.name,
        "cores": profile.cores,
        "spark": spark,
        "fair_pools": profile.fair_scheduling,
        "values": [
            {
                "key": value.key,
                "value": value.shown,
                "source": value.source.value,
                "replaces": value.replaces,
                "pinned": value.pinned,
                "why": value.why,
            }
            for value in values
        ],
    }


def _table(profile: Profile, spark: str, values: Sequence[ConfValue]) -> Iterator[str]:
    given = sum(value.value is not None for value in values)
    yield f"Profile {profile.name} for {profile.cores} cores on Spark {spark}: {given} values."
    rows = columns([("key", "value", "from"), *(_row(value) for value in values)])
    yield from ("", rows[0])
    for value, row in zip(values, rows[1:], strict=True):
        yield row
        yield from textwrap.wrap(
            value.why,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    if any(value.pinned for value in values):
        yield from ("", _PINNED)
    if profile.fair_scheduling:
        yield from (
            "",
            "Beside these, every query gets a fair scheduler pool of its own (fair_pools).",
        )


_NEWER: Final = (
    "Spark {asked} is newer than any that this release knows: this is the profile of {newest}, and "
    "whether {asked} takes every value of it is not known."
)
_PINNED: Final = (
    "* Pinned: counts for new checkpoints only. A stream that goes on with its checkpoint keeps "
    "what it was begun with."
)


def _row(value: ConfValue) -> tuple[str, str, str]:
    source = str(value.source)
    if value.replaces is not None and value.source is not ConfSource.LEFT_OUT:
        source = f"{source} (profile: {_short(value.replaces)})"
    shown = "-" if value.shown is None else _short(value.shown)
    return f"{value.key}{' *' if value.pinned else ''}", shown, source


def _short(text: str) -> str:
    # The package of Spark's own classes says nothing and fills the line.
    return text.rpartition(".")[2] if text.startswith("org.apache.spark.") else text
