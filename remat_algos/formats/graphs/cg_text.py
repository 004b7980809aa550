"""Computation graphs in the format of the authors of the lower-set paper, `cg_NAME.txt` (kusumoto2019).


variables records
id bytes label          of each variable; `_`: computed by the graph, `/path/W`: a parameter, a number: an input
forward | backward      of each record; the second half has the backward records in the same order
inputs outputs
id kind                 of each input
id                      of each output
operation
{...}                   its attributes
"""

import re
from dataclasses import dataclass
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.formats.columns import fault
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow

_START = re.compile(r"[1-9]\d*[ \t]+\d+[ \t]*\r?\n0[ \t]+\d+[ \t]+(_|/|\d+[ \t]*\r?\n)")
KINDS = ("_", "gradient", "input", "output")


@dataclass(frozen=True, slots=True)
class _Variable:
    memory: int
    label: str
    line: int


@dataclass(frozen=True, slots=True)
class _Record:
    inputs: list[tuple[int, str]]
    # Id of the first output.
    output: int
    operation: str
    line: int


def _parse(text: str, source: str) -> Tables:
    lines = _Lines(text, source)
    n_variables, n_records = lines.numbers("the numbers of variables and of records", 2)
    if n_records % 2:
        odd = "expected an even number of records, one backward record per forward record; found {n_records}"
        raise lines.fault(odd, n_records=n_records)
    variables = [lines.variable(x) for x in range(n_variables)]
    forward = [lines.record("forward", n_variables) for _ in range(n_records // 2)]
    backward = [lines.record("backward", n_variables) for _ in range(n_records // 2)]
    lines.end()
    producers: dict[int, int] = {}
    for i, record in enumerate(forward):
        if variables[record.output].label != "_" or record.output in producers:
            raise lines.fault("two forward records compute variable {x}; remove one", record.line, x=record.output)
        producers[record.output] = i
    for x, variable in enumerate(variables):
        if variable.label == "_" and x not in producers:
            raise lines.fault("no forward record computes variable {x}; is the file whole?", variable.line, x=x)
    names = {x: f"{forward[i].operation}_{x}" for x, i in sorted(producers.items())}
    nodes = []
    for x, name in names.items():
        record, gradient = forward[producers[x]], backward[producers[x]]
        if gradient.inputs[:1] != [(x, "gradient")] or gradient.operation != record.operation:
            raise lines.fault("expected the backward record of variable {x}", gradient.line, x=x)
        nodes.append(
            NodeRow(
                name,
                record.operation,
                compute=10 if record.operation.startswith("Conv") else 1,
                values=[ValueRow(variables[x].memory)],
                reads=[names[y] for y, _ in record.inputs if y in names],
                saved=[names[y] for y, kind in gradient.inputs if y in names and kind != "gradient"],
                line=record.line,
            )
        )
    return Tables(nodes, _residents(variables, forward, names), "to come", source=source)


def _residents(variables: list[_Variable], forward: list[_Record], names: dict[int, str]) -> list[ResidentRow]:
    readers: dict[int, list[str]] = {}
    for record in forward:
        for x, _ in record.inputs:
            readers.setdefault(x, []).append(names[record.output])
    return [
        ResidentRow(
            name=f"input_{variable.label}" if variable.label.isdecimal() else variable.label,
            memory=variable.memory,
            role="input" if variable.label.isdecimal() else "parameter",
            readers=readers.get(x, []),
            line=variable.line,
        )
        for x, variable in enumerate(variables)
        if x not in names
    ]


class _Lines:
    def __init__(self, text: str, source: str) -> None:
        self.lines, self.source = text.rstrip().splitlines(), source
        self.at = 0

    def fault(self, template: str, line: int = 0, **fields: Any) -> GraphError:
        return fault(self.source, template, line or self.at, **fields)

    def unexpected(self, expected: str) -> GraphError:
        return self.fault("expected {expected!w}, found {found!r}", expected=expected, found=self.lines[self.at - 1])

    def take(self, expected: str) -> str:
        if self.at >= len(self.lines):
            raise fault(self.source, "expected {expected!w}, found the end; is the file whole?", expected=expected)
        self.at += 1
        return self.lines[self.at - 1].strip()

    def numbers(self, expected: str, count: int) -> list[int]:
        words = self.take(expected).split()
        if len(words) != count or not all(word.isascii() and word.isdecimal() and len(word) < 20 for word in words):
            raise self.unexpected(expected)
        return [int(word) for word in words]

    def variable(self, x: int) -> _Variable:
        words = self.take(f"variable {x}").split(maxsplit=2)
        if len(words) < 3 or words[0] != str(x) or not words[1].isdecimal() or len(words[1]) > 20:
            raise self.fault("expected variable {x}, as `{x} bytes label`", x=x)
        return _Variable(int(words[1]), words[2], self.at)

    def record(self, part: str, n_variables: int) -> _Record:
        expected = f"a {part} record"
        if self.take(expected) != part:
            raise self.unexpected(expected)
        line = self.at
        n_inputs, n_outputs = self.numbers("numbers of inputs and outputs", 2)
        inputs = [self._input(n_variables) for _ in range(n_inputs)]
        outputs = [self._id(self.take("an output"), n_variables) for _ in range(n_outputs)]
        if len(outputs) != 1 and part == "forward":
            raise self.fault("expected one output of the forward record, found {n}", line, n=len(outputs))
        operation = self.take("an operation")
        if not self.take("attributes in braces").startswith("{"):
            raise self.unexpected("attributes in braces")
        return _Record(inputs, outputs[0] if outputs else -1, operation, line)

    def _input(self, n_variables: int) -> tuple[int, str]:
        words = self.take("an input").split()
        if len(words) != 2 or words[1] not in KINDS:
            raise self.fault("expected an input, as `id kind`; kinds are {kinds!w}", kinds=" ".join(KINDS))
        return self._id(words[0], n_variables), words[1]

    def _id(self, word: str, n_variables: int) -> int:
        if not (word.isascii() and word.isdecimal()) or len(word) > 9 or int(word) >= n_variables:
            raise self.fault("expected a variable from 0 to {last}, found {word!r}", last=n_variables - 1, word=word)
        return int(word)

    def end(self) -> None:
        if self.at < len(self.lines):
            self.at += 1
            raise self.fault("expected the end of the file; correct the counts on line 1, or remove the extra lines")


GRAPH_FORMAT = GraphFormat("cg", _parse, begins=_START)
