"""``airflow-streaming doctor``, ``check`` and ``conf``: risks and settings."""

from __future__ import annotations

import socket
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_streaming.advice.cost.request_cost import Prices
from airflow_streaming.advice.doctor import examine, risks
from airflow_streaming.advice.gathering import gather
from airflow_streaming.advice.profile import Profile, StateStore, production
from airflow_streaming.advice.profile_conf import ConfValue, resolve
from airflow_streaming.cli.common import (
    INCONCLUSIVE,
    OK,
    PROBLEM,
    add_json,
    add_repeated,
    add_stream,
    place_of,
    positive,
)
from airflow_streaming.cli.output import answer
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.codec import encode
from airflow_streaming.model.spark.conf import check_conf_key, parse_spark_version
from airflow_streaming.model.uris import check_uri
from airflow_streaming.reports.advice import doctor_report, profile_report


def add_doctor_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``doctor``."""
    add_stream(parser)
    parser.add_argument(
        "--cores",
        type=positive,
        metavar="N",
        help="total executor cores, where the stream's conf does not set them",
    )
    parser.add_argument(
        "--prices",
        type=prices,
        metavar="TABLE",
        help="price of 1,000 requests to the object store, e.g. writes=0.005,reads=0.0004; shows the price of a month",
    )
    add_json(parser)


def prices(text: str) -> Prices:
    """
    Read a table of prices.

    :raises ArgumentTypeError: the text has another form.
    """
    try:
        return Prices.parse(text)
    except SpecError as err:
        raise ArgumentTypeError(str(err)) from None


def show_advice(
    home: Home,
    stream: StreamHome,
    *,
    cores: int | None,
    as_json: bool,
    prices: Prices | None = None,
) -> int:
    """Examine a stream and print the findings; a risk is a problem."""
    found = examine(gather(home, stream, cores, prices))
    answer(
        doctor_report(stream.name, found),
        {"stream": stream.name, "advice": [encode(one) for one in found]},
        as_json=as_json,
    )
    return PROBLEM if risks(found) else OK


def add_check_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``check``."""
    parser.set_defaults(run=check_installation)
    parser.add_argument(
        "--rebuild-rows",
        action="store_true",
        help="delete the rows that triggers leave for 'list', 'top' and the fleet page; triggers write them "
        "again within 40 s",
    )
    add_json(parser)


def check_installation(arguments: Namespace) -> int:
    """Check what streams need of this host and its Airflow, and print a line for each."""
    from airflow_streaming.advice.installation.check_line import CheckOutcome
    from airflow_streaming.advice.installation.installation_checks import SeenRows, judge, worst
    from airflow_streaming.advice.installation.installation_probes import gather as gather_facts
    from airflow_streaming.reports.installation import installation_report
    from airflow_streaming.services.fleet_index import clear, state_of

    def rows_of(home: Home) -> SeenRows:
        if arguments.rebuild_rows:
            clear(home.store)
        return state_of(home.store, datetime.now(UTC))

    homes = [check_uri(place_of(arguments.home), "home")] if arguments.home else []
    lines = judge(gather_facts(homes, rows_of=rows_of))
    host = socket.gethostname()
    answer(
        installation_report(host, lines),
        {"host": host, "outcome": worst(lines).value, "checks": [encode(one) for one in lines]},
        as_json=arguments.json,
    )
    found = {line.outcome for line in lines}
    if CheckOutcome.PROBLEM in found:
        return PROBLEM
    return INCONCLUSIVE if CheckOutcome.UNKNOWN in found else OK


def add_conf_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``conf``."""
    parser.add_argument("--spark", required=True, metavar="VERSION", help="Spark version, e.g. 4.3")
    parser.add_argument(
        "--cores", required=True, type=positive, metavar="N", help="total executor cores"
    )
    parser.add_argument(
        "--state-store",
        choices=[store.value for store in StateStore],
        default=StateStore.ROCKSDB.value,
        help="state store (default: %(default)s)",
    )
    own = "value of the stream's own conf, which takes precedence; repeatable; not for secrets"
    add_repeated(parser, "--set", "KEY=VALUE", own, _setting)
    parser.add_argument(
        "stream",
        nargs="?",
        metavar="STREAM",
        help="stream whose checkpoint is reused, and with it the values pinned there",
    )
    add_json(parser)


def _setting(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    try:
        check_conf_key(key)
    except SpecError as err:
        raise ArgumentTypeError(str(err)) from err
    if not found:
        raise ArgumentTypeError(f"{key!r} has no value; write {key}=VALUE")
    return key, value


def show_conf(arguments: Namespace, stream: StreamHome | None) -> int:
    """
    Print the configuration that Spark would get.

    :param stream: The stream whose newest deployment's checkpoint is reused; ``None`` for a new
        one.
    :raises SpecError: an invalid or too old Spark version, or a value out of its range.
    """
    profile = production(cores=arguments.cores, state_store=StateStore(arguments.state_store))
    spark = _known(arguments.spark)
    current = stream.newest_deployment() if stream is not None else None
    from airflow_streaming.checkpoints.backup.recorded_sinks import (
        known_sinks,
    )  # with a stream only

    values = resolve(
        profile,
        spark,
        dict(arguments.set),
        carried_on=current.conf if current is not None else None,
        sinks=known_sinks(stream, current) if stream is not None and current is not None else (),
    )
    answer(
        profile_report(profile, spark, values, arguments.spark),
        {**_facts(profile, arguments.spark, values), "profile_of": spark},
        as_json=arguments.json,
    )
    return OK


def _known(spark: str) -> str:
    """
    Return the version whose profile is printed: the newest known one for a newer Spark.

    :raises SpecError: an invalid version, or too old a one.
    """
    # Not at the top: the doctor does without.
    from airflow_streaming.model.spark.releases import NEWEST, OLDEST

    minor = parse_spark_version(spark)[:2]
    if minor < OLDEST.version:
        raise SpecError(
            f"Spark {spark} is older than {OLDEST.name}, the oldest version that this release "
            f"runs, so it has no profile. Give a version from {OLDEST.name} to {NEWEST.name}."
        )
    return spark if minor <= NEWEST.version else NEWEST.name


def _facts(profile: Profile, spark: str, values: Sequence[ConfValue]) -> Mapping[str, Any]:
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
