"""docs/compiled.md lists the kernels that are there."""

import re

from docs.page_parts import filled
from tests.benchmarks import compiled

PAGE = compiled.PAGE.read_text(encoding="utf-8")


def part(text, name):
    return re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end {name} -->", text, re.DOTALL)[1]


def test_the_page_lists_the_kernels():
    """`python -m tests.benchmarks.compiled --only kernels --write` writes it; other rows depend on the machine."""
    listed = re.search(r"^kernels .*: ([^\n]*(?:\n +\S.*)*)", part(PAGE, "kernels"), re.MULTILINE)[1]
    names = [source.stem for source in (compiled.ROOT / "kernels").glob("*.pyx")]
    assert re.split(r",\s+", listed) == sorted(names)


def test_every_loop_that_is_measured_has_both_tables():
    for title in compiled.TITLES.values():
        for result in compiled.RESULTS.values():
            assert f"| {title} |" in result.read_text(encoding="utf-8")


def test_a_part_is_replaced_and_the_rest_stays():
    page = "above\n<!-- a b -->\nold\n<!-- end a b -->\nbelow\n<!-- c -->\nc\n<!-- end c -->\n"
    assert filled(page, "a b", "new\n") == page.replace("old\n", "new\n")
