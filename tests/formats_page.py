"""The files that docs/formats.md shows."""

import re
from pathlib import Path

FORMATS = (Path(__file__).parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")
MARKED = re.compile(
    r"<!-- file: (\S+?)(?:, ([a-z -]+?)(?:: (\S+))?)? -->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
FILES = {name: (kind, other, text) for name, kind, other, text in MARKED.findall(FORMATS)}
GRAPHS = [name for name, (kind, _, _) in FILES.items() if not kind and not name.endswith((".edges.csv", ".values.csv"))]
