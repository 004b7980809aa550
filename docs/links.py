"""Dead links of the built pages: python docs/links.py build/docs. Links to other sites are not followed.

A notebook is read in another folder, without the pages: each relative link in it is dead.
"""

import json
import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """What a page links to, and its places that can be linked to."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors = [], {"", "top"}
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src", "data") and value is not None:
                self.targets.append((self.getpos()[0], value))
            elif name in ("id", "name") and tag != "meta":
                self.anchors.add(value)


def dead_links(folder):
    """One sentence for each link of a page in the folder to a file or an anchor that does not exist."""
    links = cache(Links)
    for page in sorted(folder.resolve().rglob("*.html")):
        for line, target in links(page).targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if file.is_dir():
                file /= "index.html"
            where = f"{page.relative_to(folder.resolve())}:{line}: {target} is a dead link"
            if not file.is_file():
                yield f"{where}: there is no such file"
            elif file.suffix == ".html" and unquote(parts.fragment) not in links(file).anchors:
                yield f"{where}: the page has no such anchor"
    for notebook in sorted(folder.resolve().rglob("*.ipynb")):
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                for target in re.findall(r"\]\((?!https?:)([^)]*)\)|(\{[\w-]+\}`[^`]*`)", text):
                    yield f"{notebook.name}: {''.join(target)} is a dead link: a notebook is read without the pages"


if __name__ == "__main__":
    found = list(dead_links(Path(sys.argv[1])))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
