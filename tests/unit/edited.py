"""Run a program on the package with some of its source lines changed, as if they were edited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.patience import PATIENCE

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LOADER: Final = """
import importlib.machinery, json, sys

EDITS = json.loads(sys.argv[1])

class Edited(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        return self.source_to_code(self.get_data(self.path), self.path)
    def get_data(self, path):
        text = super().get_data(path).decode()
        for old, new in EDITS[self.name].items():
            assert text.count(old) == 1, (self.name, old, text.count(old))
            text = text.replace(old, new)
        return text.encode()

class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in EDITS else None
        if spec is not None:
            spec.loader = Edited(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder)
"""


def run_edited(edits: Mapping[str, Mapping[str, str]], program: str) -> Any:
    """
    Return what a program prints as JSON, run in a process of its own on an edited package.

    :param edits: By module: source texts that it contains once, and what replaces them.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOADER + program, json.dumps(edits)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
