"""
``make demo``: two streams in a real Airflow on this machine, until Ctrl-C.

The second one, ``example_shop``, is there to be changed: ``docs/walkthrough.md`` tries an upgrade that
is refused, one that is made, and a cutover, from the Streams page.
``make demo PIPELINE=fraud`` runs one of the examples instead of both. ``--once`` tells a story of either
unattended: launch, kill, return, and what was read and written.

The events are synthetic. Everything lies in one folder and listens on 127.0.0.1 only; nothing is
left running, whether the demo ends normally, by Ctrl-C or by SIGTERM.
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
from demo.pipelines import PIPELINES, listing, variables
from demo.stage import REPOSITORY, Stage, end_leftovers
from demo.story import launch, show, tell_example, tell_story
from demo.waiting import Progress, Say
from demo.walkthrough import Walkthrough

REFRESH_SECONDS: Final = 10.0
DAYS: Final = 3650
_NOTHING: Final = "nothing is left running"


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="tell the whole story, then end")
    parser.add_argument(
        "--pipeline", choices=sorted(PIPELINES), help="an example instead of the main job"
    )
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
            return _once(arguments.folder, arguments.runtime, arguments.pipeline, say)
        stage, dag = make_stage(arguments.folder, arguments.runtime, arguments.pipeline, say)
        _until_interrupted(stage, dag, say, is_main=arguments.pipeline is None)
    except KeyboardInterrupt:
        left = end_leftovers(arguments.folder.resolve(), say)
        say(f"The demo was interrupted; {f'{left} cannot be killed' if left else _NOTHING}.")
        return 130
    except RuntimeError as err:
        end_leftovers(arguments.folder.resolve(), say)
        say(f"The demo failed: {err}")
        return 1
    return 0


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turn a signal into ``KeyboardInterrupt``, once."""
    # What follows is orderly and bounded; a second signal would only leave processes behind.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _once(folder: Path, runtime: Path, pipeline: str | None, say: Say) -> int:
    say("Telling the whole story once, on synthetic events")
    if pipeline is None:
        checks = tell_story(folder, runtime, say)
    else:
        stage, _ = make_stage(folder, runtime, pipeline, say)
        checks = tell_example(stage, PIPELINES[pipeline], say)
    print(f"\n{show(checks)}\n")
    broken = [check.what for check in checks if not check.holds]
    say(f"Not as it should be: {', '.join(broken)}." if broken else "The story holds.")
    return 1 if broken else 0


def make_stage(folder: Path, runtime: Path, pipeline: str | None, say: Say) -> tuple[Stage, str]:
    """Return the stage of an example or of the main job, and the dag that is turned on."""
    if pipeline is None:
        main_job = Stage(folder, runtime=runtime, files=synthetic_files(DAYS, Shop()), say=say)
        return main_job, main_job.stream.name
    example = PIPELINES[pipeline]
    files = example.files()
    stage = Stage(
        folder,
        runtime=runtime,
        files=files,
        every=example.every,
        lands_in=f"input/{example.folder}",
        stream=example.name,
        environment=variables(folder.resolve(), runtime),
        runtimes=example.runtimes(),
        say=say,
    )
    say(f"Preparing {example.name}")
    example.make_ready(stage, files)
    return stage, example.name


def _until_interrupted(stage: Stage, dag: str, say: Say, *, is_main: bool) -> None:
    # Before anything else: it can be looked at while the stream is launched.
    print(f"Streams    {_page(stage)}   (in about a minute)", flush=True)
    if is_main:
        print(listing(), flush=True)
    with stage:
        launch(stage, say, dag)
        walkthrough = Walkthrough(stage) if is_main else None
        while True:
            _show(stage, walkthrough)
            time.sleep(REFRESH_SECONDS)


def _page(stage: Stage) -> str:
    return f"{stage.airflow.url}/plugin/streams"


def _show(stage: Stage, walkthrough: Walkthrough | None) -> None:
    leader = stage.stream.leader
    print(f"\nStreams    {_page(stage)}")
    print(f"Airflow    {stage.airflow.url}   (no password; Ctrl-C ends everything)")
    print(stage.stream.table())
    print(f"files      {stage.arrivals.dropped} arrived")
    if leader is not None:
        print(f"Kill the driver and watch it come back:  kill -9 {leader}", flush=True)
    if walkthrough is not None:
        print(walkthrough.look(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
