"""Pages, docstrings and comments name their subjects: the operator, the task, the driver."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from tests.documents import pages
from tests.unit.parsed import nodes, parsed

REPOSITORY: Final = Path(__file__).resolve().parents[2]
WORN: Final = re.compile(
    r"\b(whoever|somebody|nobody|a\s+person|goes\s+on|mend(s|ed|ing)?|without\s+a\s+word)\b",
    re.IGNORECASE,
)
ALSO_WORN: Final = re.compile(
    r"\b((has|have|had)\s+to|by\s+itself|go(ing)?\s+on|went\s+on|anybody|for\s+want\s+of)\b",
    re.IGNORECASE,
)
"""Refused beside the others: *must*, *automatically*, *continue* and *without* say it."""
FINISHED: Final = ("airflow_streaming", "demo", "dags", "benchmarks")
"""What is finished: its docstrings, comments and strings have none of these words, and get none back."""
PACKAGE: Final = ("airflow_streaming",)
CODE: Final = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def worn_words(text: str, words: re.Pattern[str] = WORN) -> list[str]:
    prose = CODE.sub(" ", text)
    return [" ".join(found.group().lower().split()) for found in words.finditer(prose)]


@pytest.mark.parametrize("page", pages())
def test_a_page_has_no_worn_words(page: str) -> None:
    text = (REPOSITORY / page).read_text()

    assert [*worn_words(text), *worn_words(text, ALSO_WORN)] == []


def test_every_form_of_a_worn_word_is_found() -> None:
    text = "Whoever mends it\ngoes\non without a word. Nobody: `somebody` is code; recommended."

    assert worn_words(text) == ["whoever", "mends", "goes on", "without a word", "nobody"]


def texts(source: str) -> Iterator[str]:
    """Yield the comments, docstrings and sentences of a module."""
    yield from re.findall("#.*", source)  # and ends of strings, which come below anyway
    for node in nodes(parsed(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def modules(rooms: tuple[str, ...]) -> list[str]:
    found: set[Path] = set()
    for room in rooms:
        assert list(REPOSITORY.glob(room)), f"There is no {room}."
        found |= set(REPOSITORY.glob(room if room.endswith(".py") else f"{room}/**/*.py"))
    return sorted(path.relative_to(REPOSITORY).as_posix() for path in found)


@pytest.mark.parametrize("module", modules(FINISHED))
def test_a_module_has_no_worn_words(module: str) -> None:
    source = (REPOSITORY / module).read_text()

    found = [
        word for text in texts(source) for word in (*worn_words(text), *worn_words(text, ALSO_WORN))
    ]
    assert found == []


def test_the_texts_of_a_module_are_its_comments_docstrings_and_sentences() -> None:
    source = '"""Whoever"""\n# nobody\nnobody = f"somebody {nobody}"\n'

    assert [word for text in texts(source) for word in worn_words(text)] == [
        "nobody",
        "whoever",
        "somebody",
    ]


HEADLESS: Final = (
    r"(?:^|[.;:] )(?:What|Those|One|The one|Whatever|Whichever) (?:that |which |who )?\w+"
    r"|\b(?:what|whatever) (?:is|was|are|were|has|had|it|they|there|a|an|the|no|can|could|may|must|does"
    r"|did|another|other|needs?|comes?|goes|stands|lies|runs)\b"
    r"|\b(?:those|ones?|the one|all|none|nothing|everything|anything) that\b|\bthat of\b|\bthose of\b"
)
"""A relative clause without its noun: "What is proved of green", "one that differs"."""
FOREIGN: Final = (
    r"\b(?:goes? by|went by|comes? of|came of|becomes? of|became of|tells? of|told of|stands? in\b"
    r"|lies? (?:beside|below|above|in)\b|takes? (?:it|them|one|none)? ?for\b|taken for|has got to|is at it"
    r"|carr(?:y|ies|ied) (?:it|them) through|put in order|made anew|let(?:s)? go|speaks? against|is of no"
    r"|looked at|be looked)\b"
)
"""Verbs that the field does not use."""
CONSTRUCTIONS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        HEADLESS,
        FOREIGN,
        r"\b(?:is|are|was|were) (?:no|none|no one)\b(?! longer)",
        r"\b(?:is|are|was|were|be) (?:told|said|asked|shown|given|wanted)\b",
    )
)
MOST: Final = 14
"""Constructions per 10,000 words of docstrings, comments and strings."""
MOST_ON_A_PAGE: Final = 20
SHORT_PAGE: Final = 500
"""Words below which a page may have one construction."""
PLAIN: Final = sorted(
    [
        "*.py",
        *(room.parent.name for room in (REPOSITORY / "airflow_streaming").glob("*/__init__.py")),
    ]
)
"""Every room keeps to the limit, and so do the modules above the rooms."""


def sentences(source: str) -> Iterator[str]:
    """Yield the texts of at least four words, each on one line."""
    for node in nodes(parsed(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            if len(words) >= 4:
                yield " ".join(words)
    for comment in re.findall(r"(?:^|  )\s*# (.*)", source, re.MULTILINE):
        if len(comment.split()) >= 4:
            yield comment


def constructions(texts: list[str]) -> int:
    return sum(len(kind.findall(text)) for text in texts for kind in CONSTRUCTIONS)


@pytest.mark.parametrize("room", PLAIN)
def test_a_room_has_few_translated_constructions(room: str) -> None:
    found = [
        text
        for module in modules((f"airflow_streaming/{room}",))
        for text in sentences((REPOSITORY / module).read_text())
    ]
    words = sum(len(text.split()) for text in found)

    worst = [text for text in found if constructions([text])]
    assert 10_000 * constructions(found) / words <= MOST, worst


@pytest.mark.parametrize("page", pages())
def test_a_page_has_few_translated_constructions(page: str) -> None:
    lines = re.sub(r"```.*?```", "", (REPOSITORY / page).read_text(), flags=re.DOTALL).splitlines()
    found = [re.sub("`[^`]*`", "X", line.strip()) for line in lines if len(line.split()) >= 4]
    words = max(sum(len(line.split()) for line in found), SHORT_PAGE)

    worst = [line for line in found if constructions([line])]
    assert 10_000 * constructions(found) / words <= MOST_ON_A_PAGE, worst


def test_constructions_are_found() -> None:
    source = (
        '"""What is proved of green."""\n# those that wait for long\nx = "A name that is none."\n'
    )

    assert constructions(list(sentences(source))) == 3


BRITISH_STEMS: Final = (
    *("colour", "finalis", "recognis", "optimis", "normalis", "serialis", "initialis", "organis"),
    *(
        "honour",
        "neighbour",
        "favour",
        "catalogue",
        "judgement",
        "learnt",
        "spelt",
        "offence",
        "licence",
    ),
    *("labell", "modell", "travell", "cancell", "analyse", "analysing"),
)
BRITISH: Final = re.compile(
    "|".join(
        rf"{stem}(?:ed|ing)" if stem.endswith("ll") else stem + ("[ds]?" * stem.endswith("yse"))
        for stem in BRITISH_STEMS
    ),
    re.IGNORECASE,
)
OTHERS_NAMES: Final = frozenset({"cancelled", "CANCELLED"})
"""Of Python's futures and of Spark's errors."""


@pytest.mark.parametrize("room", ["airflow_streaming", "demo", "dags", "docs"])
def test_spelling_is_american_as_in_airflow(room: str) -> None:
    files = (
        path
        for ending in ("py", "md", "toml", "js")
        for path in REPOSITORY.glob(f"{room}/**/*.{ending}")
    )
    found = {
        path.relative_to(REPOSITORY).as_posix(): british_words(path.read_text())
        for path in files
        if "vendor" not in path.parts
    }

    assert {name: words for name, words in found.items() if words} == {}


def british_words(text: str) -> list[str]:
    lowered = text.lower()
    # Most modules hold none, and plain searches are a hundred times faster than the expression.
    if not any(stem in lowered for stem in BRITISH_STEMS):
        return []
    words = (found.group() for found in BRITISH.finditer(text))
    return [word for word in words if word not in OTHERS_NAMES]


def test_british_spelling_is_found() -> None:
    text = "color_of(colour), Finalised, future.cancelled(), analysis, analysed, a catalog"

    assert british_words(text) == ["colour", "Finalis", "analysed"]


SAID_BY_OTHERS: Final = frozenset({"err", "error", "why", "reason", "detail"})


STOP_BEHIND_A_NAME: Final = re.compile(rf"\b({'|'.join(SAID_BY_OTHERS)})\b[^{{}}]*\}}[\"'\sf]*\.")
"""Most modules have none, so they need not be parsed."""


def doubled_stops(source: str) -> list[int]:
    """Return the lines at which a full stop is put behind what may have one; ``closed`` adds it."""
    if not STOP_BEHIND_A_NAME.search(source):
        return []
    found = []
    for text in (node for node in nodes(parsed(source)) if isinstance(node, ast.JoinedStr)):
        for part, after in pairwise(text.values):
            value = part.value if isinstance(part, ast.FormattedValue) else None
            name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            is_stop = isinstance(after, ast.Constant) and re.match(r"\.(\s|$)", str(after.value))
            if name in SAID_BY_OTHERS and is_stop:
                found.append(text.lineno)
    return found


def test_what_others_say_gets_no_second_full_stop() -> None:
    found = {name: doubled_stops((REPOSITORY / name).read_text()) for name in modules(PACKAGE)}

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_second_full_stop_is_found() -> None:
    source = 'f"It failed: {err}. Try."\nf"{a.detail}."\nf"{closed(err)} Try."\nf"{why}.log"'

    assert doubled_stops(source) == [1, 2]


def test_the_pages_are_read() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/glossary.md", "docs/adr/0007-on-kill.md"} <= {
        *pages()
    }


@pytest.mark.parametrize("page", pages())
def test_a_link_to_a_page_leads_somewhere(page: str) -> None:
    path = REPOSITORY / page
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", CODE.sub(" ", path.read_text()))

    assert [link for link in links if not (path.parent / link).exists()] == []
