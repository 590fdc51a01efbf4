"""
The command ``airflow-streaming``: streams for on-call engineers, without the UI.

Exit codes: 0 all right, 1 a problem (the stream is not well, is unknown, could not be read or
stopped, the doctor found a risk, or a checkpoint or a backup is not sound), 2 wrong use, such as a
home that does not exist, or the output cannot be written, 3 inconclusive (``gate``, ``compare``).
``status`` counts a stream as all right when its level is ``well`` or ``off``: it works without an open
incident, or is down on purpose.

Results go to the output; errors, notices and progress to stderr. With ``--json`` the output is one
JSON object, an error ``{"error": ...}``, unless Ctrl-C ends the command or the output cannot be
written.

Credentials of a home on an object store come from where its client takes them (such as
``AWS_ACCESS_KEY_ID``); other settings of the client from ``FSSPEC_`` variables (such as
``FSSPEC_S3_ENDPOINT_URL``). They are never arguments, which every user of the host can read.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow_streaming.cli.common import PROBLEM, WRONG_USE, person_of
from airflow_streaming.cli.output import complain, show_json
from airflow_streaming.cli.parser import build_parser, parsed
from airflow_streaming.exceptions import SpecError, StreamingError

if TYPE_CHECKING:
    from airflow_streaming.services.streams import Probe

CUT_OFF: Final = 141
"""A shell's exit code of a program that a closed pipe ended: 128 + SIGPIPE."""
INTERRUPTED: Final = 130
"""A shell's exit code of a program that Ctrl-C ended: 128 + SIGINT."""


def main(argv: Sequence[str] | None = None, *, probe: Probe | None = None) -> int:
    """
    Run one command and return its exit code.

    :param argv: Arguments without the program's name; the process's by default.
    :param probe: Reads driver processes; this host's by default.
    """
    if sys.stdout is None:  # closed by the caller; said before anything is done
        complain("The output cannot be written: it is closed. Nothing was done.")
        return WRONG_USE
    _print_what_cannot_be_encoded()
    _be_interrupted_by(signal.SIGTERM, signal.SIGHUP)
    try:
        try:
            code = _main(argv, probe)
        except SystemExit:  # after help or a version
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as ``head``, has seen enough.
        _drop_output()
        return CUT_OFF
    except KeyboardInterrupt as err:
        return _end_interrupted(*err.args[:1])
    except OSError as err:
        if not _output_is_lost():
            raise
        _drop_output()
        complain(f"The output cannot be written: {err.strerror or err}.")
        return WRONG_USE
    return code


def _main(argv: Sequence[str] | None, probe: Probe | None) -> int:
    parser = build_parser()
    arguments = parsed(parser, sys.argv[1:] if argv is None else argv)
    try:
        if _needs_home(arguments):
            return _run(arguments, probe)
        return _run_without_home(arguments)
    except SpecError as err:
        return _refuse(arguments, err, WRONG_USE)
    except StreamingError as err:
        return _refuse(arguments, err, PROBLEM)


def _print_what_cannot_be_encoded() -> None:
    # A path may hold characters that the terminal's encoding, or any, cannot encode.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _be_interrupted_by(*endings: signal.Signals) -> None:
    """Let other signals than Ctrl-C end a command's own processes too."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        return  # of a program that calls ``main``: its signals are its own
    for ending in endings:
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, interrupt)


def _drop_output() -> None:
    # Python would complain once more when it flushes the output at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_is_lost() -> bool:
    # A failed write may have emptied the buffers by now, so this writes once more.
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _end_interrupted(ending: int = signal.SIGINT) -> int:
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    complain(
        "Interrupted. Recorded steps stand, and nothing half done counts. Give the command again to "
        "continue."
    )
    # A shell ends its script only if it sees that the signal, too, has ended this program.
    signal.signal(ending, signal.SIG_DFL)
    signal.raise_signal(ending)
    return INTERRUPTED


def _refuse(arguments: argparse.Namespace, err: StreamingError, code: int) -> int:
    # Notes list the records that an action wrote before it failed.
    message = " ".join([str(err), *getattr(err, "__notes__", ())])
    complain(message)
    if getattr(arguments, "json", False):
        show_json({"error": message})
    return code


def _needs_home(arguments: argparse.Namespace) -> bool:
    if arguments.command == "checkpoint":
        from airflow_streaming.cli.checkpoint.arguments import needs_home

        return needs_home(arguments)
    if "run" in arguments:
        return False
    return arguments.command != "conf" or arguments.stream is not None


# Each branch loads only its own modules: a backup of ten thousand files takes little longer than
# that.
def _run(arguments: argparse.Namespace, probe: Probe | None) -> int:
    from airflow_streaming.cli import streams

    return streams.run(arguments, probe)


def _run_without_home(arguments: argparse.Namespace) -> int:
    if arguments.command == "conf":
        from airflow_streaming.cli import advice

        return advice.show_conf(arguments, None)
    if "run" in arguments:
        return int(arguments.run(arguments))
    from airflow_streaming.cli.checkpoint import arguments as verbs

    return verbs.run(arguments, person_of(arguments) if "by" in arguments else None)


if __name__ == "__main__":
    sys.exit(main())
