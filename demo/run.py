"""
``make demo``: a stream in a real Airflow on this machine, until Ctrl-C.

The events are synthetic. Everything lies in one folder and listens on 127.0.0.1 only; nothing is
left running, whether the demo ends by itself, by Ctrl-C or by SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from demo.events import Shop, synthetic_files
from demo.stage import REPOSITORY, Stage
from demo.story import launch, show, tell_story
from demo.waiting import Progress, Say

REFRESH_SECONDS: Final = 10.0
DAYS: Final = 3650


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="tell the whole story, then end")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".demo")
    parser.add_argument(
        "--runtime", type=Path, default=REPOSITORY / ".runtimes" / "spark-4.3", help="Spark's home"
    )
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    say = Progress()
    try:
        if arguments.once:
            return _once(arguments.folder, arguments.runtime, say)
        _until_interrupted(arguments.folder, arguments.runtime, say)
    except KeyboardInterrupt:
        say("The demo was interrupted; nothing is left running.")
        return 130
    except RuntimeError as err:
        say(f"The demo failed: {err}")
        return 1
    return 0


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turn a signal into ``KeyboardInterrupt``, once."""
    # What follows is orderly and bounded; a second signal would only leave processes behind.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _once(folder: Path, runtime: Path, say: Say) -> int:
    say("Telling the whole story once, on synthetic events")
    checks = tell_story(folder, runtime, say)
    print(f"\n{show(checks)}\n")
    broken = [check.what for check in checks if not check.holds]
    say(f"Not as it should be: {', '.join(broken)}." if broken else "The story holds.")
    return 1 if broken else 0


def _until_interrupted(folder: Path, runtime: Path, say: Say) -> None:
    stage = Stage(folder, runtime=runtime, files=synthetic_files(DAYS, Shop()), say=say)
    with stage:
        launch(stage, say)
        while True:
            _show(stage)
            time.sleep(REFRESH_SECONDS)


def _show(stage: Stage) -> None:
    driver = stage.stream.launch
    print(f"\nAirflow    {stage.airflow.url}   (no password; Ctrl-C ends everything)")
    print(stage.stream.table())
    print(f"files      {stage.arrivals.dropped} arrived")
    if driver is not None:
        print(f"Kill the driver and watch it come back:  kill -9 {driver.pid}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
