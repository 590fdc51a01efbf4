"""Three ways to keep one script running, each in a folder of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import psutil

from airflow_streaming.launch.runtime import Runtime
from benchmarks.figures import seconds_of_life
from demo.airflow import Airflow
from demo.processes import kill_group
from demo.stage import REPOSITORY
from demo.stream import Stream
from demo.waiting import Say

DAGS: Final = REPOSITORY / "benchmarks" / "dags"
SCRIPT: Final = DAGS / "jobs" / "numbers.py"
