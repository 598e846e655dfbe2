"""The page on installing says what the tests really run on."""

from pathlib import Path

import pytest

from mmvisattn.analysis import tested_matrix

DOCS = Path(__file__).parents[3] / "docs"
ADVICE = "run tools/tested_matrix.py when the tests pass"


def test_this_environment_is_recorded():
    assert tested_matrix.current_environment() in tested_matrix.read_record(DOCS / "tested.json"), ADVICE


def test_the_page_shows_the_record():
    page = (DOCS / "install.md").read_text()
    record = tested_matrix.read_record(DOCS / "tested.json")
    assert tested_matrix.put_into_page(page, tested_matrix.render(record)) == page, ADVICE


def test_both_stacks_are_recorded():
    record = tested_matrix.read_record(DOCS / "tested.json")
    assert {entry["mmdet"].split()[0] for entry in record} == {"mmdet", "onedl-mmdetection"}


def test_a_page_without_marks():
    with pytest.raises(ValueError, match="must hold the marks"):
        tested_matrix.put_into_page("text", "table")
