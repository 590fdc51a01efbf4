"""
``make deployment``: a real deployment on this machine, until Ctrl-C.

    python -m tests.deployment.run --profile celery-postgresql
    python -m tests.deployment.run --profile local-postgresql --cells launch:none,driver-kill:database

``--cells`` runs acts on a stream of the deployment, kills a part in the middle of each, and counts rows after each.
Everything listens on 127.0.0.1 only, and nothing is left running.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Final

from demo.run import interrupt
from demo.stage import REPOSITORY, end_leftovers
from demo.waiting import Progress
from tests.deployment.acts import ACTS
from tests.deployment.cells import chosen, run_cells
from tests.deployment.deployed import Deployment, Machine, deployment
from tests.deployment.parts import PARTS
from tests.deployment.profiles import PROFILES, ROLES, TEAM
from tests.deployment.table import holds, markdown

RUNTIMES: Final = REPOSITORY / ".runtimes"
REFRESH_SECONDS: Final = 10.0


def main() -> int:
    """Run the deployment; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.deployment.run", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="celery-postgresql")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".deployment")
    parser.add_argument("--s3a", type=Path, default=RUNTIMES / "s3a")
    parser.add_argument(
        "--cells",
        default="",
        help=f"ACT:PART,...; acts: {', '.join(ACTS)}; parts: none, {', '.join(PARTS)}; all for every one",
    )
    parser.add_argument("--results", type=Path, help="file to which each cell is appended as JSON")
    parser.add_argument(
        "--minutes", type=float, help="no cell begins later, and one that has begun fails then"
    )
    arguments = parser.parse_args()
    ends_at = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    say = Progress()
    machine = Machine(
        spark_4_3=RUNTIMES / "spark-4.3", spark_3_5=RUNTIMES / "spark-3.5", s3a=arguments.s3a
    )
    try:
        cells = chosen(arguments.cells)
        with deployment(arguments.profile, arguments.folder, machine, say) as made:
            show(made)
            if not cells:
                until_interrupted(made)
            outcomes = run_cells(made, cells, say, arguments.results, ends_at=ends_at)
            if made.requests is not None:
                shutil.copy(made.requests, arguments.folder / "requests.log")
        print(f"\n{markdown(outcomes)}\n")
    except KeyboardInterrupt:
        end_leftovers(arguments.folder.resolve(), say)
        say("The deployment was interrupted.")
        return 130
    except RuntimeError as err:
        end_leftovers(arguments.folder.resolve(), say)
        say(f"The deployment failed: {err}")
        return 1
    return 0 if all(map(holds, outcomes)) else 1


def show(made: Deployment) -> None:
    """Print the addresses and the users."""
    airflow, ports = made.airflow, made.airflow.ports
    print(f"Airflow    {airflow.url}")
    print(f"Streams    {airflow.url}/plugin/streams")
    if made.profile.has_roles:
        print(
            f"users      {', '.join(name.lower() for name in (*ROLES, TEAM))}; password as the name"
        )
    print(f"database   {made.profile.database.value} on port {ports.database}")
    print(f"home       {made.stage.home}")
    print(f"logs       {airflow.home / 'logs'}", flush=True)


def until_interrupted(made: Deployment) -> None:
    """Keep every component running until Ctrl-C."""
    made.stage.arrivals.start()
    while not (ended := made.airflow.ended_component()):
        time.sleep(REFRESH_SECONDS)
    raise RuntimeError(ended)


if __name__ == "__main__":
    sys.exit(main())
