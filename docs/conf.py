"""How Sphinx builds these pages: python -m sphinx -W --keep-going -b html docs build/docs."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpydoc.xref
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style as Plain
from pybtex.style.labels import BaseLabelStyle
from pygments.lexers.special import TextLexer

import remat_algos
from tests.public import PUBLIC


class KeyLabels(BaseLabelStyle):
    """A paper's label is its key, by which docstrings and pages name it."""

    def format_labels(self, sorted_entries):
        return [entry.key for entry in sorted_entries]


class Keyed(Plain):
    default_label_style = KeyLabels


register_plugin("pybtex.style.formatting", "keyed", Keyed)

project = "remat_algos"
author = copyright = "the authors of remat_algos"
version = release = remat_algos.__version__
extensions = [
    "docs.downloads",
    "docs.notebook_kernels",
    "docs.plans",
    "docs.search_words",
    "docs.sphinx_cache",
    "docs.steps.pages",
    "docs.typesetting",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinxcontrib.bibtex",
]

default_role = "literal"  # single backticks in docstrings
smartquotes = False  # they would change the quotes and dashes of values and options
exclude_patterns = ["reproductions"]  # pages of papers include them

html_theme = "furo"
html_title = f"remat_algos {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = ["accessible.js"]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
highlight_language = "text"  # not Python, where a block does not name its language

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
mathjax_path = "mathjax/tex-svg.js"  # one file of MathJax 3.2.2, which needs no network; version 4 breaks from disk
myst_heading_anchors = 4
nb_render_markdown_format = "myst"

nb_execution_mode = "force"  # a cache would not see that the package has changed
nb_execution_in_temp = True
nb_execution_excludepatterns = [] if find_spec("torch") else ["tutorials/6_pytorch.ipynb"]  # then its outputs are shown
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True
# Pages hide answers; the bar says the same when it is open.
nb_code_prompt_show = nb_code_prompt_hide = "Answer"

autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc.xref.DEFAULT_LINKS.clear()
numpydoc_xref_aliases = {
    name.rpartition(".")[2]: f"remat_algos.{name}" for name, thing in PUBLIC.items() if isinstance(thing, type)
}
numpydoc_xref_ignore = "all"  # but our own types; those of Python would link to its pages

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "keyed"


def drop_back_links(app, pagename, templatename, context, doctree):
    """Links from sources to their pages name modules, and the anchors of pages public names."""
    if pagename.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context.get("body", ""))


def setup(app):
    app.connect("html-page-context", drop_back_links)
    app.add_lexer("csv", TextLexer)  # GitHub knows it, Pygments does not
