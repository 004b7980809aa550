"""Work that Sphinx and its extensions would do again for each page or docstring: here it is done once."""

import gc
import re
from functools import cache, partial

import numpydoc.docscrape_sphinx
from bs4 import BeautifulSoup
from furo.navigation import get_navigation_tree
from jinja2 import BytecodeCache
from sphinx.search.en import SearchEnglish

RELATIVE = re.compile(r'href="(?=[^#"])(?!\w+:)')


class Templates(BytecodeCache):
    """Numpydoc's template, which it compiles for every docstring."""

    def __init__(self):
        self.stored = {}

    def load_bytecode(self, bucket):
        if bucket.key in self.stored:
            bucket.bytecode_from_string(self.stored[bucket.key])

    def dump_bytecode(self, bucket):
        self.stored[bucket.key] = bucket.bytecode_to_string()


class Navigation:
    """The tree of all pages in the sidebar, which Sphinx resolves and Furo parses for every page."""

    def __init__(self, app):
        self.tree = None
        app.connect("html-page-context", self.before_furo, priority=400)
        app.connect("html-page-context", self.after_furo, priority=600)

    def before_furo(self, app, pagename, templatename, context, doctree):
        context.pop("toctree", None)

    def after_furo(self, app, pagename, templatename, context, doctree):
        if self.tree is None:
            options = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
            tree = app.builder._get_local_toctree(app.config.root_doc, **options)
            self.tree = BeautifulSoup(get_navigation_tree(tree), "html.parser")
            self.links = {link["href"]: link for link in self.tree.find_all("a")}
        marked = self.marked(self.links.get(app.builder.get_target_uri(pagename)))
        context["furo_navigation_tree"] = RELATIVE.sub('href="' + "../" * pagename.count("/"), marked)

    def marked(self, link):
        """The tree as it is seen from the page of a link: open as far as this page."""
        if link is None:
            return str(self.tree)
        target, items = link["href"], link.find_parents("li")
        before = [(item, item["class"]) for item in items]
        for item in items:
            item["class"] = [*item["class"], "current", *(["current-page"] if item is items[0] else [])]
            for box in item.find_all("input", recursive=False):
                box["checked"] = ""
        link["href"] = "#"
        text = str(self.tree)
        link["href"] = target
        for item, classes in before:
            item["class"] = classes
            for box in item.find_all("input", recursive=False):
                del box["checked"]
        return text


def setup(app):
    gc.set_threshold(200_000, 20, 100)  # a build makes millions of nodes, and lets few cycles go
    environment = partial(numpydoc.docscrape_sphinx.SandboxedEnvironment, bytecode_cache=Templates())
    numpydoc.docscrape_sphinx.SandboxedEnvironment = environment
    SearchEnglish.stem = cache(SearchEnglish.stem)
    Navigation(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
