"""
The commands of ``airflow-streaming``: one row each, grouped as its help prints them.

A command's arguments are defined when it is chosen. So a run loads only its own command, which
saves half the time of a short command.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any, Final, NoReturn

from airflow_streaming import __version__
from airflow_streaming.cli.common import HOME_VARIABLE, WRONG_USE, add_home, add_json, add_stream

Fill = Callable[[argparse.ArgumentParser], None]
"""Adds the arguments of one command."""

_WELL: Final = (
    "Exit codes: 0 the stream works, waits for data, or is intentionally stopped; 1 it does not, or "
    "cannot be read; 2 wrong use."
)

OF_SCRIPTS: Final = frozenset({"rehearse", "plan", "gate", "adopt"})
"""Commands that take what follows ``--`` as arguments of a script; the others end their options there."""


class _WrongUse(SystemExit):
    """The end of a command whose arguments cannot be; the error has been printed."""

    def __init__(self, message: str) -> None:
        super().__init__(WRONG_USE)
        self.message = message


class _Formatter(argparse.HelpFormatter):
    """Wraps sentences, and leaves indented lines, such as examples, as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        lines = text.splitlines()
        blocks = groupby(lines, key=lambda line: (not line.strip(), line.startswith(" ")))
        return "\n".join(
            "\n".join(several) if is_empty or is_raw else fill("\n".join(several), width, indent)
            for (is_empty, is_raw), several in blocks
        )


class Parser(argparse.ArgumentParser):
    """
    A parser that is filled when it is first used, and shows its own usage when it is misused.

    Options may stand anywhere among the positional arguments of a command.
    """

    fill: Fill | None = None
    _is_mixing = False
    """argparse is in one of the two passes of an intermixed parse, each of which leaves arguments over."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **given})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        if self._is_mixing:
            return super().parse_known_args(args, namespace)
        if self._can_mix():
            found, unknown = self._mixed(args, namespace)
        else:
            found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            # Left to argparse, the outermost parser complains, which knows no option of a verb.
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _can_mix(self) -> bool:
        # argparse mixes neither the words of a subcommand nor a positional that excludes an option.
        excluded = {
            id(one) for group in self._mutually_exclusive_groups for one in group._group_actions
        }
        positionals = self._get_positional_actions()
        return self._subparsers is None and not any(id(one) in excluded for one in positionals)

    def _mixed(self, args: Any, namespace: Any) -> tuple[Any, list[str]]:
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse drops the error of an output that cannot be written, such as a full disk.
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        print(f"Try '{self.prog} --help'.", file=sys.stderr)
        raise _WrongUse(message)


def _of(module: str, function: str, *more: object) -> Fill:
    """Return what fills a parser with the arguments that a module of this room declares."""

    def fill(parser: argparse.ArgumentParser) -> None:
        declare = getattr(import_module(f"airflow_streaming.cli.{module}"), function)
        declare(parser, *more)

    return fill


def _add_status(parser: argparse.ArgumentParser) -> None:
    add_stream(parser)
    add_json(parser)


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command.

    :param summary: Its action in the imperative, without a period.
    :param more: Sentences about it, such as its exit codes.
    :param examples: Lines to copy, without the program's name.
    """

    name: str
    summary: str
    fill: Fill
    more: str = ""
    examples: tuple[str, ...] = ()

    @property
    def epilog(self) -> str:
        """Return the text below the arguments."""
        text = "\n".join(f"  airflow-streaming {one}" for one in self.examples)
        return "\n\n".join(filter(None, (f"Examples:\n{text}" if text else "", self.more)))


COMMANDS: Final[tuple[tuple[str, tuple[Command, ...]], ...]] = (
    (
        "Look",
        (
            Command(
                "list",
                "List the streams of the home",
                _of("status", "add_list_arguments"),
                examples=(
                    "list",
                    "list --json --limit 500 --after orders_0499",
                    "list --select 'level in (down, bad)'",
                ),
            ),
            Command(
                "status",
                "Show the state of one stream",
                _add_status,
                f"{_WELL} A driver that seems silent is watched for 10 seconds first.",
                ("status orders", "status orders --json"),
            ),
            Command(
                "top",
                "Watch the streams of the home, or one of them, live",
                _of("top", "add_arguments"),
                examples=("top", "top orders --hours 6", "top --once"),
            ),
            Command(
                "events",
                "Show what happened to a stream, with filters",
                _of("history", "add_events"),
                examples=("events orders --kind launched --since 24",),
            ),
            Command(
                "log",
                "Show the end of a driver's log, also after the driver is gone",
                _of("history", "add_log"),
                "It reads the driver's file, pod or worker page. Of a failed driver the last 256 KiB are kept "
                "with its epoch, with secrets masked.",
                ("log orders", "log orders --follow", "log orders --epoch 17"),
            ),
            Command(
                "live",
                "Show which lane of a stream is live, and where it writes",
                _of("status", "add_live_arguments"),
                examples=("live orders", "live orders --output"),
            ),
            Command(
                "doctor",
                "Report configuration risks of a stream",
                _of("advice", "add_doctor_arguments"),
                "Exit codes: 0 no risk found, 1 a risk was found, 2 wrong use.",
                ("doctor orders --cores 16",),
            ),
            Command(
                "check",
                "Check that this host and its Airflow have what streams need",
                _of("advice", "add_check_arguments"),
                "A line for each thing: the value seen, the value expected, the next step. It creates and "
                "deletes a few files in the home, and changes nothing else; --rebuild-rows deletes the rows that "
                "triggers leave there. Exit codes: 0 in order, warnings "
                "included; 1 a problem; 2 wrong use; 3 something could not be checked.",
                ("check --home /data/streams", "check --json"),
            ),
            Command(
                "conf",
                "Show the Spark configuration of the production profile",
                _of("advice", "add_conf_arguments"),
                "It says why for each value, and needs neither Spark nor a home, unless a stream is named.",
                ("conf --spark 4.3 --cores 16", "conf --spark 4.3 --cores 16 orders"),
            ),
            Command(
                "monitoring",
                "Write the Grafana dashboards and Prometheus rules",
                _of("monitoring", "add_arguments"),
                "It needs neither Spark nor a home. Without --write it lists the files.",
                ("monitoring --write /etc/monitoring",),
            ),
        ),
    ),
    (
        "Operate",
        (
            Command(
                "init",
                "Make a folder or prefix the home of new streams",
                _of("known_home", "add_init_arguments"),
                "Once, before the first stream is launched there. A task never does it: the folder in "
                "whose place an unmounted home should be looks like a new home, and the drivers of the "
                "old one live on. A home stays as it is.",
                ("init /srv/streams", "init s3://bucket/streams"),
            ),
            Command(
                "start",
                "Start a stream that is stopped or whose circuit is open",
                _of("acts.single", "add_start_arguments"),
                "It records the desired state and closes an open circuit, with a whole restart budget: fix "
                "the cause first. The stream's keep-alive task starts the driver.",
                ('start orders --reason "topic is back"', "start --select team=payments --yes"),
            ),
            Command(
                "stop",
                "Stop a stream at its next batch boundary",
                _of("acts.single", "add_stop_arguments"),
                "It records the desired state, then asks the driver to stop. With --wait the exit code "
                "is 1 when the driver is not proved dead in time.",
                (
                    'stop orders --reason "broker upgrade"',
                    "stop orders --grace 300 --wait 330",
                    "stop --select 'source=kafka://broker-1*' --yes",
                ),
            ),
            Command(
                "pause",
                "Hold a stream between two batches while its tables are changed",
                _of("acts.batch_pause", "add_arguments"),
                "The driver lives on. The stream continues at `end`, or after --longest.",
                (
                    'pause begin orders --longest 1800 --reason "vacuum"',
                    "pause end orders",
                ),
            ),
            Command(
                "maintenance",
                "Stop several streams for some time",
                _of("acts.maintenance", "add_arguments"),
                "The keep-alive tasks start the streams again, first those whose sources remove unread data soonest. "
                "Meanwhile no stream is restarted or reported. Exit codes: 0 held, or all back; 1 a stream is left as it is "
                "or not back; 2 wrong use.",
                (
                    "maintenance --select 'source=kafka://b1*' --for 7200 --yes",
                    "maintenance --show",
                ),
            ),
            Command(
                "declare-dead",
                "Confirm that the driver of the newest epoch is dead",
                _of("acts.single", "add_declare_dead_arguments"),
                "Only for a driver that no machine can see any more. Two drivers on one checkpoint "
                "write rows twice, so make sure first.",
                ('declare-dead orders --epoch 17 --reason "node-3 was wiped"',),
            ),
            Command(
                "hand-over",
                "Make another DAG the owner of a stream",
                _of("acts.single", "add_hand_over_arguments"),
                examples=('hand-over orders --to orders_v2 --reason "DAG renamed"',),
            ),
            Command(
                "windows",
                "Show the announced windows, or announce a range again",
                _of("windows", "add_arguments"),
                "With --from and --until it records a request, which the DAG that announces the windows follows.",
                (
                    "windows orders",
                    "windows orders --from 2026-11-27T06Z --until 2026-11-27T09Z",
                ),
            ),
            Command(
                "prune",
                "Remove what of a stream is old and not needed",
                _of("prune", "add_arguments"),
                "Removes epochs, history, timeline and checkpoints of retired deployments "
                "that are older than --keep-days. Outputs stay unless --outputs is given. "
                "Exit codes: 0 done, 1 a removal failed, 2 wrong use.",
                ("prune orders --dry-run", "prune orders --keep-days 30 --outputs"),
            ),
            Command(
                "remove",
                "Remove a stream with its checkpoints and outputs",
                _of("remove", "add_arguments"),
                "A verified backup is taken first. Afterwards no task can start the stream again. Exit codes: 0 "
                "done, or possible with --dry-run; 1 refused; 2 wrong use.",
                (
                    "remove orders --dry-run",
                    'remove orders --released-by orders --reason "replaced"',
                ),
            ),
            Command(
                "reuse",
                "Let a new stream have the name of a removed one",
                _of("remove", "add_reuse_arguments"),
                "Numbers of epochs and deployments continue after the removed stream's.",
                ('reuse orders --reason "orders comes back"',),
            ),
            Command(
                "prepare-runtime",
                "Archive a Spark's classes, to start its drivers faster",
                _of("spark.runtime", "add_arguments"),
                "Once for each Spark, for example when an image is built; again after its jars or its "
                "Java were replaced. It takes about half a minute and 160 MB in the Spark's folder.",
                ("prepare-runtime --runtime spark-4.3",),
            ),
        ),
    ),
    (
        "Change",
        (
            Command(
                "plan",
                "Print the plans of a script's queries, and start none",
                _of("spark.gate", "add_plan"),
                examples=("plan job.py --runtime spark-4.3 -- --topic orders",),
            ),
            Command(
                "gate",
                "Decide whether new Spark or code may use a checkpoint",
                _of("spark.gate", "add_gate"),
            ),
            Command(
                "rehearse",
                "Run a new script on a copy of a stream's checkpoints",
                _of("spark.rehearse", "add_arguments"),
                "Nothing of the stream is touched. Exit codes: 0 passed; 1 failed or inconclusive; 2 "
                "wrong use, or the report could not be written.",
                ("rehearse --stream orders --script new.py --runtime spark-4.3",),
            ),
            Command(
                "adopt",
                "Turn an application with checkpoints of its own into a stream",
                _of("spark.adopt", "add_arguments"),
                "It prints the edits that the script needs and the StreamSpec. When nothing is in the way it copies "
                "the checkpoints into the home; the originals are only read. Exit codes: 0 copied, or possible with "
                "--dry-run; 1 something is in the way; 2 wrong use.",
                (
                    "adopt job.py --name orders --checkpoint /data/cp --dry-run",
                    "adopt job.py --name orders --of q=/data/cp -- {checkpoint}",
                ),
            ),
            Command(
                "upgrade",
                "Show an upgrade; keep it, roll it back, abort or leave it",
                _of("upgrade", "add_arguments"),
                examples=("upgrade status orders", 'upgrade abort orders --reason "wrong script"'),
            ),
            Command(
                "campaign",
                "Upgrade many streams in waves, and stop at the first bad one",
                _of("acts.campaign", "add_arguments"),
                "The verbs read and write records; the DAG of the fleet does the work. Exit codes of plan: 0 no "
                "stream is refused, 1 at least one is.",
                (
                    "campaign plan --select tier=1 --runtime spark-4.4",
                    "campaign start --select tier=1 --runtime spark-4.4",
                    'campaign take-out 4 orders --reason "month end"',
                ),
            ),
            Command(
                "cutover",
                "Show a cutover; promote, abort, roll back, keep or retire it",
                _of("cutover", "add_arguments"),
                examples=("cutover status orders", 'cutover promote orders --reason "compared"'),
            ),
            Command(
                "compare",
                "Compare two outputs by time bucket and key",
                _of("spark.compare", "add_arguments"),
                "Exit codes: 0 the same; 1 they differ; 2 wrong use, or the report could not be "
                "written; 3 inconclusive.",
                ("compare --blue /a --green /b --runtime spark-4.3 --time ts",),
            ),
        ),
    ),
    (
        "Back up",
        (
            Command(
                "checkpoint",
                "Inspect, back up, verify and restore checkpoints",
                _of("checkpoint.arguments", "add_verbs"),
            ),
            Command(
                "disaster-drill",
                "Recover streams from backups elsewhere, and time it",
                _of("spark.disaster", "add_arguments"),
                "Each newest backup is verified, restored into --to, and run to the present with discarded output; "
                "live streams are not touched. A killed drill continues when the command is given again. Exit codes: "
                "0 all recovered; 1 at least one is lost; 2 wrong use; 3 at least one is unproven.",
                ("disaster-drill --select tier=1 --to s3://other-region/drills",),
            ),
        ),
    ),
)


class _MainParser(Parser):
    """The outermost parser, whose help groups the commands."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group, commands in COMMANDS:
            formatter.start_section(group)
            lines = (f"  {one.name:15} {one.summary}" for one in commands)
            formatter.add_text("\n".join(lines))
            formatter.end_section()
        for section in self._action_groups[1:]:
            formatter.start_section(section.title)
            formatter.add_arguments(section._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _MainParser(
        prog="airflow-streaming",
        description="Inspect and operate the streams of a home, with or without Airflow's UI.",
        epilog="'airflow-streaming COMMAND --help' shows the arguments and examples of a command.\n\n"
        "Exit codes: 0 all right; 1 a problem, such as an unknown stream; 2 wrong use; 3 inconclusive "
        "(gate, compare).\n\n"
        "Credentials of a home on an object store come from its client's environment variables (such "
        "as AWS_ACCESS_KEY_ID), other settings of the client from FSSPEC_ variables.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    add_home(parser, os.environ.get(HOME_VARIABLE))
    kinds = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    for _, commands in COMMANDS:
        for one in commands:
            command = kinds.add_parser(
                one.name, help=one.summary, description=f"{one.summary}.", epilog=one.epilog
            )
            add_home(command)
            command.fill = one.fill
    return parser


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """
    Parse, with whatever follows ``--`` as arguments of a script.

    :raises SystemExit: for help, or for wrong use, which is printed as JSON too with ``--json``.
    """
    try:
        return _parsed(parser, argv)
    except _WrongUse as err:
        own = argv[: argv.index("--")] if "--" in argv else argv
        if "--json" in own:
            print(json.dumps({"error": err.message}, indent=2))
        raise


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    given = list(argv)
    if "--" not in given or _command_of(given) not in OF_SCRIPTS:
        return parser.parse_args(given)
    # If an option follows the script, argparse takes only the script as positional and rejects the
    # arguments after "--".
    cut = given.index("--")
    arguments = parser.parse_args(given[:cut])
    arguments.arguments = [*arguments.arguments, *given[cut + 1 :]]
    return arguments


def _command_of(given: Sequence[str]) -> str | None:
    words = iter(given)
    for word in words:
        if word == "--home":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None
