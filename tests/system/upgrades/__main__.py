"""
Upgrades of a running stream in a real Airflow, good and bad, with people, browsers and kills.

``python -m tests.system.upgrades`` takes about twenty minutes and prints a table; it ends with 1
when anything is not as it has to be. ``--browser`` names a Chromium; playwright has to be there.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from demo.run import interrupt
from demo.stage import REPOSITORY
from demo.story import Check, show
from demo.waiting import Progress
from tests.system.upgrades import acts
from tests.system.upgrades.applications import write
from tests.system.upgrades.kills import QUICK
from tests.system.upgrades.play import Play

RUNTIMES: Final = {name: f".runtimes/{name}" for name in ("spark-3.5", "spark-4.3")}
PARTS: Final[dict[str, Callable[[Play], list[Check]]]] = {
    "restart": acts.plain_restart,
    "answers": acts.no_and_silence,
    "bad": acts.bad_applications,
    "kills": acts.killed,
}


def main() -> int:
    """Run the program; 0 when all holds."""
    arguments = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    runtimes = {name: Path(path) for name, path in arguments.runtimes.items()}
    play = Play(arguments.folder.resolve(), runtimes, Progress(), environment=QUICK)
    write(play.folder / "bad")
    checks: list[Check] = []
    try:
        with play.stage:
            play.launch()
            checks += acts.good_upgrade(play, arguments.browser, arguments.pictures)
            for part in arguments.parts:
                checks += PARTS[part](play)
                print(f"\n{show(checks)}\n", flush=True)
            checks += acts.compared(play)
    except (KeyboardInterrupt, RuntimeError) as err:
        play.say(f"Ended early, and nothing is left running: {err or 'interrupted'}")
        return 1
    left = play.stage.leftovers()
    print(f"\n{show(checks)}\n\n{len(left)} processes left")
    return 0 if all(check.holds for check in checks) and not left else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="upgrades", description=__doc__)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".demo" / "upgrades")
    parser.add_argument(
        "--runtimes",
        type=json.loads,
        default={name: REPOSITORY / path for name, path in RUNTIMES.items()},
        help="JSON: folders of spark-3.5 and spark-4.3",
    )
    parser.add_argument("--browser", help="a Chromium, to upgrade by hand instead of by the API")
    parser.add_argument("--pictures", type=Path, default=REPOSITORY / ".demo" / "pictures")
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=f"of {', '.join(PARTS)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
