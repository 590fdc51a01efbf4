"""The arguments of ``airflow-streaming plan`` and ``airflow-streaming gate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from airflow_streaming.cli.argument_types import pair, place
from airflow_streaming.exceptions import SpecError

_EPILOG: Final = (
    "Exit codes: 0 allowed, perhaps with a consequence; 1 not allowed, or it could not be looked "
    "at; 3 unknown; 2 wrong use, or the report could not be written."
)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``plan``; those of the script stand last, after ``--``."""
    parser.set_defaults(run=_plan)
    parser.add_argument("script", metavar="SCRIPT", help="path or URI of the script")
    _add_runtime(parser, required=True)
    _add_conf(parser)
    _add_json(parser)
    _add_rest(parser)


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of ``gate``."""
    kinds = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _version(kinds.add_parser("version", help="another Spark", epilog=_EPILOG))
    _change(kinds.add_parser("change", help="new code, and perhaps another Spark", epilog=_EPILOG))
    rules = kinds.add_parser("rules", help="print every rule, with its source, as Markdown")
    rules.set_defaults(run=_rules)


def _rules(_: argparse.Namespace) -> int:
    from airflow_streaming.core.compatibility.manual import manual

    print(manual(), end="")
    return 0


def _version(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(run=_gate)
    _add_subject(verb)
    _add_query(verb)
    verb.add_argument(
        "--from",
        dest="from_version",
        type=_spark,
        metavar="VERSION",
        help="the Spark that wrote the checkpoint, e.g. 3.5 (of a stream: the deployment's)",
    )
    verb.add_argument("--to", dest="to_version", type=_spark, required=True, metavar="VERSION")
    verb.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="plans of the queries, as `plan --json` prints them",
    )
    _add_conf(verb)
    _add_report(verb)


def _change(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(run=_gate)
    _add_subject(verb)
    new = verb.add_mutually_exclusive_group(required=True)
    new.add_argument("--script", metavar="NEW", help="the new version of the script")
    new.add_argument(
        "--plan", type=Path, metavar="FILE", help="its plan, as `plan --json` prints it"
    )
    old = verb.add_mutually_exclusive_group()
    old.add_argument("--old-script", metavar="OLD", help="the version that runs now")
    old.add_argument("--old-plan", type=Path, metavar="FILE", help="its plan")
    _add_runtime(verb, required=False)
    _add_query(verb)
    verb.add_argument(
        "--from",
        dest="from_version",
        type=_spark,
        metavar="VERSION",
        help="the Spark that wrote the checkpoint (default: that of the old plan)",
    )
    verb.add_argument(
        "--to",
        dest="to_version",
        type=_spark,
        metavar="VERSION",
        help="the Spark that will run the new code (default: that of the new plan)",
    )
    _add_conf(verb)
    _add_report(verb)
    _add_rest(verb)


def _add_subject(verb: argparse.ArgumentParser) -> None:
    what = verb.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--checkpoint",
        type=place,
        metavar="URI",
        help="checkpoint of one query, or the folder above those of one application",
    )
    what.add_argument(
        "--stream", metavar="NAME", help="a stream of the home: its checkpoints and recorded plans"
    )
    about = "folder or URI with the records of all streams"
    verb.add_argument("--home", default=argparse.SUPPRESS, metavar="URI", help=about)


def _add_query(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--query",
        metavar="NAME",
        help="ask about this query alone: whose checkpoint it is, where there are more queries",
    )


def _add_runtime(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--runtime",
        required=required,
        metavar="NAME_OR_PATH",
        help="the Spark that plans: a name in AIRFLOW__STREAMING__RUNTIMES, or a folder",
    )


def _add_conf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=pair,
        metavar="KEY=VALUE",
        help="Spark configuration of the new version; may be repeated; not for secrets",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report there, as Markdown"
    )
    _add_json(parser)


def _add_rest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGUMENT", help="arguments of the script, after --"
    )


def _spark(text: str) -> str:
    from airflow_streaming.core.compatibility.version.release import release_of

    try:
        release_of(text)
    except SpecError as err:
        why = f"{text!r:.80} is no version of Spark. Write it as 3.5.9 or 4.1."
        raise argparse.ArgumentTypeError(why) from err
    return text


def _plan(arguments: argparse.Namespace) -> int:
    # Not at the top: the other commands do without all that reads checkpoints and starts Spark.
    from airflow_streaming.cli.gate import planning

    return planning.run(arguments)


def _gate(arguments: argparse.Namespace) -> int:
    from airflow_streaming.cli.gate import verbs

    return verbs.run(arguments)
