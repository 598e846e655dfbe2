"""Record this environment as tested, and rewrite the table in docs/install.md: run it after the tests passed."""

import json
from pathlib import Path

from mmvisattn.analysis.tested_matrix import add, current_environment, put_into_page, read_record, render

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Update docs/tested.json and docs/install.md."""
    record = add(read_record(DOCS / "tested.json"), current_environment())
    (DOCS / "tested.json").write_text(json.dumps(record, indent=1) + "\n")
    page = DOCS / "install.md"
    page.write_text(put_into_page(page.read_text(), render(record)))
    print(render(record))


if __name__ == "__main__":
    main()
