"""The table of tested environments in docs/install.md, written from the environments in which the tests ran.

``python tools/tested_matrix.py``, run after the tests passed, records the environment it runs in. A test compares the
page with the record, and the record with the environment, so neither can go stale unseen.
"""

import json
import platform
from pathlib import Path

from mmvisattn.hosts.doctor import HOSTS, MMCV_WHEELS, MMENGINE_WHEELS, OPENCV_WHEELS, installed_version

COLUMNS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "mmengine": MMENGINE_WHEELS,
    "mmcv": MMCV_WHEELS,
    "mmdet": HOSTS["mmdet"],
    "mmseg": HOSTS["mmseg"],
    "numpy": ("numpy",),
    "opencv": OPENCV_WHEELS,
    "setuptools": ("setuptools",),
}
BEGIN, END = "<!-- tested environments -->", "<!-- end of tested environments -->"
Environment = dict[str, str]


def current_environment() -> Environment:
    """Python and the packages that matter, each as ``name version`` or ``-``.

    >>> current_environment()['torch'].split()[0]
    'torch'
    """
    found = {column: installed_version(*names) or "-" for column, names in COLUMNS.items()}
    return {"python": platform.python_version(), **found}


def read_record(path: Path) -> list[Environment]:
    """The recorded environments; none when there is no record."""
    record: list[Environment] = json.loads(path.read_text()) if path.is_file() else []
    return record


def add(record: list[Environment], environment: Environment) -> list[Environment]:
    """The record with an environment in it, in place of an older one with the same Python and mm packages.

    >>> add([{'python': '3.11.7', 'mmdet': 'mmdet 3.2.0'}], {'python': '3.11.9', 'mmdet': 'mmdet 3.3.0'})
    [{'python': '3.11.9', 'mmdet': 'mmdet 3.3.0'}]
    """

    def stack(entry: Environment) -> tuple[str, str]:
        return entry["python"].rsplit(".", 1)[0], entry["mmdet"].split()[0]

    kept = [entry for entry in record if stack(entry) != stack(environment)]
    return sorted([*kept, environment], key=stack, reverse=True)


def render(record: list[Environment]) -> str:
    """The record as a Markdown table, one environment a row.

    >>> print(render([{'python': '3.11.7', 'torch': 'torch 2.14.1'}]))
    | python | torch |
    |---|---|
    | 3.11.7 | 2.14.1 |
    """
    columns = list(record[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for entry in record:
        cells = (entry[column].removeprefix(column + " ") for column in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put_into_page(page: str, table: str) -> str:
    """The page with the table between its two marks.

    Raises:
        ValueError: If a mark is missing.
    """
    if BEGIN not in page or END not in page:
        raise ValueError(f"the page must hold the marks {BEGIN} and {END}")
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}"
