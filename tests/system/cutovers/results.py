"""What runs have shown, as a table and a summary."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

_WIDTHS: Final = (4, 9, 10, 13, 12, 6, 6, 5, 6, 8, 8, 8, 6)
_HEAD: Final = (
    *("run", "way", "course", "application", "end", "kills", "rows", "lost", "double"),
    *("usual s", "switch s", "extra s", "holds"),
)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return one line a run and a summary for each way."""
    rows = [_HEAD, *(_cells(line) for line in lines)]
    shown = ["  ".join(str(c).ljust(w) for c, w in zip(r, _WIDTHS, strict=True)) for r in rows]
    return "\n".join([*shown, "", *_summaries(lines)])


def _cells(line: dict[str, Any]) -> tuple[Any, ...]:
    seen, output = line.get("consumer", {}), line.get("output", {})
    both = {name: max(seen.get(name, 0), output.get(name, 0)) for name in ("lost", "doubled")}
    wrong = max(seen.get("wrong", 0), output.get("wrong", 0))
    return (
        *(line["run"], line["way"], line["course"], line.get("application", "")),
        *(line.get("state", "error"), len(line.get("kills", ())), seen.get("rows", 0)),
        *(both["lost"], f"{both['doubled']}+{wrong}w" if wrong else both["doubled"]),
        *(line.get("usual_s", "-"), line.get("switch_s", "-"), line.get("without_fresh_s", "-")),
        "yes" if line["holds"] else "NO",
    )


def _summaries(lines: Sequence[dict[str, Any]]) -> Iterable[str]:
    for way in sorted({line["way"] for line in lines}):
        told = [line for line in lines if line["way"] == way]
        calm = [
            line["without_fresh_s"]
            for line in told
            if line.get("killed_in_switch") == 0 and line["course"] == "forward"
        ]
        hit = [line["without_fresh_s"] for line in told if line.get("killed_in_switch")]
        kills = [kill for line in told for kill in line.get("kills", ())]
        yield (
            f"{way}: {sum(line['holds'] for line in told)} of {len(told)} hold; seconds without a "
            f"fresh row beyond the usual: {_spread(calm)} with nobody killed in the switch, "
            f"{_spread(hit)} with; {len(kills)} kills at "
            f"{len(set(kills))} different steps, by state {dict(_states(kills))}"
        )


def _states(kills: Iterable[str]) -> Counter[str]:
    return Counter(kill.split(":")[0] for kill in kills)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "not seen"
    return f"median {statistics.median(values):.1f}, at most {max(values):.1f} ({len(values)} runs)"
