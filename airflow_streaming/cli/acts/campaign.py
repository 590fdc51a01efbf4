"""
The command ``campaign``: one change of many streams, wave after wave.

Each verb reads or writes records. The DAG of the fleet does the work.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow_streaming.changes.campaign.state import CampaignState
from airflow_streaming.changes.campaign.waves import DEFAULT_WAVES
from airflow_streaming.cli.common import (
    OK,
    PROBLEM,
    Person,
    add_home,
    add_json,
    add_person,
    add_repeated,
    duration,
    pair,
    person_of,
    positive,
)
from airflow_streaming.cli.output import show, show_json, show_lines
from airflow_streaming.cli.status import standing_of
from airflow_streaming.exceptions import RecordError, RuntimeNotFound, SpecError
from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.home import Home
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.campaign import (
    ApproveWaves,
    BadSoak,
    Bound,
    CampaignTerms,
    FleetChange,
    WaveQuery,
)
from airflow_streaming.reports.campaigns.course import (
    campaign_facts,
    campaign_report,
    plan_facts,
    plan_report,
)
from airflow_streaming.services.campaigns import commands as acts
from airflow_streaming.services.campaigns.planning import (
    Examine,
    FleetSelection,
    plan_campaign,
    select_streams,
)
from airflow_streaming.services.selection import live_lanes
from airflow_streaming.services.streams import Probe
from airflow_streaming.storage.probe import ensure_exclusive

IMAGE: Final = "spark.kubernetes.container.image"
_DIGITS: Final = 9
_BLACKOUT: Final = re.compile(r"(?P<start>[0-9:]{4,5})-(?P<end>[0-9:]{4,5})(?:@(?P<zone>\S+))?")
_COMMANDS: Final[dict[str, tuple[str, Callable[..., CampaignState]]]] = {
    "pause": ("admit no further stream; upgrades in progress continue", acts.pause),
    "resume": ("continue a paused campaign", acts.resume),
    "approve": ("let the next wave begin", acts.approve),
    "abort": ("begin nothing more, and roll back what is not kept yet", acts.abort),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    plan = _verb(verbs, "plan", "examine the streams by their records; nothing is changed")
    start = _verb(verbs, "start", "begin a campaign; the DAG of the fleet works on it")
    for verb in (plan, start):
        _add_change(verb)
    plan.add_argument(
        "--with-spark",
        action="store_true",
        help="run plan mode and the gate for each stream, --at-once at a time (default: records alone)",
    )
    add_person(start)
    _verb(verbs, "list", "list the campaigns of the home, newest first")
    status = _verb(verbs, "status", "show the waves and streams of a campaign")
    evidence = _verb(verbs, "evidence", "write who, when, verdicts, backups and digests to a file")
    evidence.add_argument(
        "--write",
        type=Path,
        required=True,
        metavar="FILE",
        help="ends with .json or .html",
    )
    take_out = _verb(verbs, "take-out", "take a stream out; an open upgrade comes to its own end")
    for name in _COMMANDS:
        _numbered(_verb(verbs, name, _COMMANDS[name][0]), is_act=True)
    for verb in (status, evidence):
        _numbered(verb)
    _numbered(take_out, is_act=True)
    take_out.add_argument("stream", metavar="STREAM", help="name of the stream")


def run(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    """
    Run the verb and return the exit code.

    :raises SpecError: an argument is wrong.
    :raises CampaignRefused: the campaign does not allow it; nothing was changed.
    """
    campaigns = Campaigns(home.store)
    if arguments.verb == "plan":
        return _plan(home, arguments, probe)
    if arguments.verb == "list":
        return _list(campaigns, arguments)
    if arguments.verb == "status":
        return _show(acts.state_by_number(campaigns, _number(arguments)), campaigns, arguments)
    if arguments.verb == "evidence":
        return _write(home, campaigns, arguments)
    ensure_exclusive(home.store)
    person = person_of(arguments)
    if arguments.verb == "start":
        return _start(home, arguments, probe, person)
    told: dict[str, Any] = {"by": person.name, "reason": person.reason}
    if arguments.verb == "take-out":
        state = acts.take_out(campaigns, _number(arguments), base_of(arguments.stream), **told)
    else:
        state = _COMMANDS[arguments.verb][1](campaigns, _number(arguments), **told)
    return _show(state, campaigns, arguments)


def _number(arguments: argparse.Namespace) -> int:
    text: str = arguments.campaign
    if not text.isdecimal() or len(text) > _DIGITS:
        raise SpecError(
            f"{text!r:.80} is not the number of a campaign; 'campaign list' shows them."
        )
    return int(text)


def _verb(verbs: Any, name: str, text: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    add_home(verb)
    add_json(verb)
    return verb


def _numbered(verb: argparse.ArgumentParser, *, is_act: bool = False) -> None:
    verb.add_argument("campaign", metavar="NUMBER", help="number of the campaign")
    if is_act:
        add_person(verb)


def _add_change(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--select",
        required=True,
        metavar="SELECTOR",
        help="the streams, e.g. 'team=payments,spark=3.5*'",
    )
    change = verb.add_argument_group("the change")
    change.add_argument("--runtime", default="", metavar="NAME", help="name of the new runtime")
    change.add_argument(
        "--script", default="", metavar="FILE", help="path or URI of the new script"
    )
    change.add_argument("--image", metavar="IMAGE", help=f"same as --conf {IMAGE}=IMAGE")
    add_repeated(change, "--conf", "KEY=VALUE", "a new setting; repeatable; not for secrets", pair)
    add_repeated(change, "--remove-conf", "KEY", "remove a setting; repeatable")
    add_repeated(change, "--size", "NAME=VALUE", "executors, executor_cores, executor_memory", pair)
    course = verb.add_argument_group("the course")
    course.add_argument(
        "--waves",
        default=",".join(DEFAULT_WAVES),
        metavar="SIZES",
        help="numbers, shares, and rest (default: %(default)s)".replace("5%,25%", "5%%,25%%"),
    )
    add_repeated(course, "--canary", "STREAM", "a stream of the first wave; repeatable")
    course.add_argument(
        "--at-once", type=positive, default=1, metavar="N", help="streams at a time (default: 1)"
    )
    add_repeated(
        course,
        "--blackout",
        "HH:MM-HH:MM[@ZONE]",
        "time of day in which no stream is admitted; repeatable",
        blackout,
    )
    course.add_argument(
        "--bad-soak",
        choices=[one.value for one in BadSoak],
        default=BadSoak.STREAM.value,
        help="what returns after the first bad soak (default: stream)",
    )
    course.add_argument("--soak", type=duration, metavar="SECONDS", help="longest soak of a stream")
    course.add_argument(
        "--wave-soak",
        type=duration,
        default=timedelta(0),
        metavar="SECONDS",
        help="time between the last soak of a wave and the next wave (default: 0)",
    )
    course.add_argument(
        "--approve",
        choices=[one.value for one in ApproveWaves],
        default=ApproveWaves.NONE.value,
        help="which waves wait for 'campaign approve' (default: none)",
    )
    course.add_argument(
        "--query",
        action="append",
        default=[],
        nargs=4,
        metavar=("NAME", "URL", "SUCCESS", "FAILURE"),
        help="judge each wave by a number, e.g. slo 'http://prometheus:9090/api/v1/query?query=...' "
        "'>= 0.99' '< 0.9'; an empty FAILURE fails all but SUCCESS; repeatable",
    )
    add_repeated(
        course, "--query-path", "NAME=PATH", "where another JSON reply has the number", pair
    )
    add_repeated(course, "--accept", "CODE", "accept a finding, as in an upgrade; repeatable")


def blackout(text: str) -> Blackout:
    """Return a time of day such as ``06:00-08:00@Europe/Berlin``."""
    match = _BLACKOUT.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not HH:MM-HH:MM[@ZONE]")
    try:
        return Blackout(start=match["start"], end=match["end"], timezone=match["zone"] or "UTC")
    except SpecError as err:
        raise argparse.ArgumentTypeError(str(err).rstrip(".")) from err


def _change(arguments: argparse.Namespace) -> FleetChange:
    both = sorted({*dict(arguments.conf)} & {*arguments.remove_conf})
    if both:
        raise SpecError(
            f"--conf sets {both[0]!r:.200} and --remove-conf removes it. Leave one of them out."
        )
    conf: dict[str, str | None] = {**dict(arguments.conf), **dict.fromkeys(arguments.remove_conf)}
    if arguments.image:
        conf[IMAGE] = arguments.image
    return FleetChange(
        runtime=arguments.runtime,
        application=arguments.script,
        conf=conf,
        size=dict(arguments.size),
    )


def _selection(home: Home, arguments: argparse.Namespace, probe: Probe) -> FleetSelection:
    return select_streams(
        home,
        live_lanes(home, parse_selector(arguments.select)),
        arguments.select,
        lambda lane: standing_of(lane, probe),
        sizes=[size.strip() for size in arguments.waves.split(",")],
        canaries=arguments.canary,
    )


def _plan(home: Home, arguments: argparse.Namespace, probe: Probe) -> int:
    change, selection = _change(arguments), _selection(home, arguments, probe)
    rows = plan_campaign(
        home,
        selection,
        change,
        spark=_spark(arguments.runtime),
        examine=_examine(home, change) if arguments.with_spark else None,
        at_once=arguments.at_once,
    )
    if arguments.json:
        show_json(plan_facts(rows, change))
    else:
        show(plan_report(rows, change, [len(wave) for wave in selection.waves]))
    return PROBLEM if any(row.decision is GateDecision.NOT_ALLOWED for row in rows) else OK


def _examine(home: Home, change: FleetChange) -> Examine:
    from airflow_streaming.cli.spark import fleet_gate  # other verbs do without

    if change.size:
        raise SpecError("--with-spark plans no size; leave it out, or plan the size alone.")
    return fleet_gate.gate_of(home, change)


def _spark(runtime: str) -> str:
    """Return the version of a runtime's Spark; empty where this host does not have it."""
    if not runtime:
        return ""
    from airflow_streaming.cli.spark.runtime import runtime_named  # other verbs do without

    try:
        return runtime_named(runtime).spark_version
    except RuntimeNotFound:
        return ""


def _start(home: Home, arguments: argparse.Namespace, probe: Probe, person: Person) -> int:
    terms = CampaignTerms(
        at_once=arguments.at_once,
        blackouts=tuple(arguments.blackout),
        bad_soak=BadSoak(arguments.bad_soak),
        wave_soak=arguments.wave_soak,
        soak=arguments.soak,
        approve=ApproveWaves(arguments.approve),
        accept=tuple(arguments.accept),
        queries=_queries(arguments),
    )
    selection, campaigns = _selection(home, arguments, probe), Campaigns(home.store)
    state = acts.begin_campaign(
        campaigns,
        _change(arguments),
        selection.waves,
        terms,
        selector=arguments.select,
        follows=selection.follows,
        by=person.name,
        reason=person.reason,
    )
    _show(state, campaigns, arguments)
    if not arguments.json:
        number = state.campaign.number
        show_lines([f"Trigger the DAG of the fleet to work on campaign {number}."])
    return OK


def _queries(arguments: argparse.Namespace) -> tuple[WaveQuery, ...]:
    paths = dict(arguments.query_path)
    names = [name for name, *_ in arguments.query]
    unknown = sorted(set(paths) - set(names))
    if unknown:
        raise SpecError(f"--query-path names {unknown[0]!r:.80}, which no --query defines.")
    return tuple(
        WaveQuery(
            name=name,
            url=url,
            path=paths.get(name, ""),
            success=Bound.parsed(success),
            failure=Bound.parsed(failure) if failure.strip() else None,
        )
        for name, url, success, failure in arguments.query
    )


def _list(campaigns: Campaigns, arguments: argparse.Namespace) -> int:
    found = {number: _state_of(campaigns, number) for number in reversed(campaigns.numbers())}
    unread = {number: one for number, one in found.items() if isinstance(one, str)}
    if arguments.json:
        states = [one for one in found.values() if not isinstance(one, str)]
        told = [campaign_facts(state, ()) for state in states]
        show_json({"campaigns": told, "unreadable": unread})
    else:
        lines = [f"{number}: {_line_of(one)}" for number, one in found.items()]
        show_lines(lines or [f"{campaigns.store.uri} has no campaign."])
    return PROBLEM if unread else OK


def _state_of(campaigns: Campaigns, number: int) -> CampaignState | str:
    try:
        return acts.state_by_number(campaigns, number)
    except RecordError as err:
        return str(err)


def _line_of(state: CampaignState | str) -> str:
    if isinstance(state, str):
        return state
    return (
        f"{state.word}, wave {state.wave} of {len(state.campaign.waves)}, {len(state.members)} streams, "
        f"{state.campaign.change}"
    )


def _show(state: CampaignState, campaigns: Campaigns, arguments: argparse.Namespace) -> int:
    steps = campaigns.steps(state.campaign.number)
    if arguments.json:
        show_json(campaign_facts(state, steps))
    else:
        show(campaign_report(state, steps))
    return OK


def _write(home: Home, campaigns: Campaigns, arguments: argparse.Namespace) -> int:
    from airflow_streaming.reports.campaigns.html import html
    from airflow_streaming.services.campaigns.evidence import evidence_of  # other verbs do without

    state = acts.state_by_number(campaigns, _number(arguments))
    steps = campaigns.steps(state.campaign.number)
    members = evidence_of(home, state.campaign)
    title = f"Campaign {state.campaign.number}"
    texts = {
        ".json": lambda: json.dumps(campaign_facts(state, steps, members), indent=2) + "\n",
        ".html": lambda: html(campaign_report(state, steps, members), title),
    }
    make = texts.get(arguments.write.suffix)
    if make is None:
        raise SpecError(f"{str(arguments.write)!r:.200} does not end with .json or .html.")
    try:
        arguments.write.write_text(make())
    except OSError as err:
        raise SpecError(f"{arguments.write} cannot be written: {err.strerror or err}.") from err
    if arguments.json:
        show_json({"campaign": state.campaign.number, "file": str(arguments.write)})
    else:
        show_lines([f"{title}: {arguments.write}"])
    return OK
