"""What Sphinx typesets badly on every page: blocks of code, amounts with units, and references of docstrings."""

import re

from docutils import nodes

# Characters of a line of code on a wide screen, and of the longest word of code that is not cut on a phone.
WIDTH, LONGEST = 88, 36
SENTENCE = 40  # characters of a cell
AMOUNT = re.compile(r"(?<=\d) (?=(?:%|[kKMGT]?i?B|[num]?s)(?![\w]))")
REFERENCE = re.compile(r"\[R[0-9a-f]{12}-(\d+)\]")
PLAIN = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw, nodes.comment)


def folded(line: str, width: int = WIDTH) -> str:
    r"""A command in lines that a shell reads as one; it is cut before a pipe, or before an option of its first program.

    Examples
    --------
    >>> print(folded("$ remat solve a.csv --region 'a=b --c' --effort fast | tail -n 1", 32))
    $ remat solve a.csv \
        --region 'a=b --c' \
        --effort fast | tail -n 1
    """
    if len(line) <= width:
        return line
    program, *pipes = re.split(r" (?=\| )", line)
    first, *options = re.split(r" (?=--?\w)", program)
    lines = [first]
    for part in [*options, *pipes]:
        quoted = any(lines[-1].count(quote) % 2 for quote in "'\"")
        if not quoted and len(lines[-1]) + len(part) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def typeset(app, doctree):
    """Drop empty last lines of blocks, fold commands, mark long names and cells, and keep amounts with their units."""
    for block in list(doctree.findall(nodes.literal_block)):
        text = block.astext().rstrip("\n")
        if block.get("language") == "console":
            text = "\n".join(folded(line) if line.startswith("$ ") else line for line in text.split("\n"))
        if text != block.astext():
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)
    for literal in doctree.findall(nodes.literal):
        if max(map(len, literal.astext().split()), default=0) > LONGEST:
            literal["classes"].append("long")
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > SENTENCE:
            cell["classes"].append("long")
    for text in list(doctree.findall(nodes.Text)):
        if AMOUNT.search(text) and not any(isinstance(each, PLAIN) for each in parents(text)):
            text.parent.replace(text, nodes.Text(AMOUNT.sub("\N{NO-BREAK SPACE}", text)))


def parents(node):
    while node.parent is not None:
        node = node.parent
        yield node


def number_references(app, pagename, templatename, context, doctree):
    """Name the references of a docstring as its list does: numpydoc leaves their unique keys in the text."""
    context["body"] = REFERENCE.sub(r"[\1]", context.get("body", ""))


def setup(app):
    app.connect("doctree-read", typeset)
    app.connect("html-page-context", number_references)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
