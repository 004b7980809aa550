"""Messages quote what they were given in a few printable letters: a check of the source.

A message is an f-string in a `raise`, or in a call that makes an error or a warning. What it shows must be known to be
short and printable by the source alone (`Source.safe`): quoted by `quoted`, `shortened` or `listed`, a constant, a
number, or made of such.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.public import PUBLIC

PACKAGE = Path(__file__).resolve().parents[1] / "remat_algos"

QUOTING = {
    "quoted",
    "shortened",
    "shortened_path",
    "typed",
    "listed",
    "counted",
    "did_you_mean",
    "format_bytes",
    "format_compute",
}
NUMBERS = {"int", "float", "bool", "len", "round", "min", "max", "sum", "abs", "ord", "as_whole"}
TEXTUAL = {"str", "Any", "object", "Path", "PathLike"}
RAW = {"loads", "read_text", "decode", "repr", "fspath", "getattr", "vars"}  # what they return is not known
COMMAND_LINE = {"arguments", "chosen"}
PLACES = {"__name__", "shape", "size", "ndim", "dtype", "lineno", "colno", "line_num", "start"}
OF_TEXTS = {"removesuffix", "removeprefix", "replace", "lower", "strip", "keys", "values", "items", "get"}
MAKE_MESSAGES = {"warn", "fail", "_fail", "error", "_error", "refuse"}
OURS = {"ValueError", "TypeError"}  # and what ends on Error in errors.py: texts of such errors are messages of ours
PARTS = {
    "message",
    "fault",
    "reason",
    "remedy",
    "hint",
    "near",
    "where",
    "what",
    "expected",
    "noun",
    "source",
    "offer",
    "missed",
}
"""Names of parts of messages: safe to show, since what is bound to them is checked as a message is."""

EXCEPTIONS = {
    "self.model": "a network is called as its family, a registered function",
    "net.model": "the same",
    "solver.name": "the name of a registered function",
    "form.name": "the name of a registered format",
    "self.prog": "the name of the command",
    **dict.fromkeys(("claimed.memory", "found.memory"), "whole bytes of a `Reservation`"),
    **dict.fromkeys(("claim.compute", "simulation.compute"), "a whole number of a `ComputeBound`, a `Simulation`"),
}
"""Expressions that are safe for another reason."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BINDERS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.withitem)
KINDS = {*FUNCTIONS, *BINDERS, ast.ExceptHandler, ast.ClassDef, ast.Call, ast.Raise, ast.keyword, ast.Return}
LEAVES = {ast.Load, ast.Store, ast.Del, ast.Constant}


class Source:
    """The syntax trees of some modules, and what can be said about their expressions."""

    def __init__(self, texts):
        self.trees = {name: ast.parse(text) for name, text in texts.items()}
        self.parent, self.shown = {}, defaultdict(list)
        self.functions, self.calls, self.fields = defaultdict(list), defaultdict(list), defaultdict(set)
        self.stored, self.bases, self.errors = defaultdict(list), defaultdict(set), set()
        self.known, self.asked, self.bound = {}, set(), {}
        for name, tree in self.trees.items():
            self._visit(name, tree)
        self.public = {name.rpartition(".")[2] for name in PUBLIC}
        while more := {base for name in self.public for base in self.bases[name]} - self.public:
            self.public |= more

    def _visit(self, module, tree):
        """One walk over a tree: the parent of each node, what it defines, what its messages show."""
        rest = [(tree, None, None, False)]
        while rest:
            node, parent, function, in_message = rest.pop()
            self.parent[node] = parent
            kind = type(node)
            if in_message and kind is ast.FormattedValue:
                self.shown[module].append((node, function))
            if kind in KINDS:
                in_message = in_message or _is_message(node, function)
                self._collect(module, node, parent, function)
            inside = node if kind in FUNCTIONS else function
            for field in node._fields:
                value = getattr(node, field)
                if isinstance(value, ast.AST):
                    if type(value) not in LEAVES:
                        rest.append((value, node, inside, in_message))
                elif type(value) is list:
                    rest += [(each, node, inside, in_message) for each in value if isinstance(each, ast.AST)]

    def _collect(self, module, node, parent, function):
        in_class = isinstance(parent, ast.ClassDef)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions[node.name].append(node)
                if in_class and node.returns is not None:
                    self.fields[node.name].add(ast.unparse(node.returns))
            case ast.AnnAssign() if in_class:
                self.fields[ast.unparse(node.target)].add(ast.unparse(node.annotation))
            case ast.ClassDef():
                self.bases[node.name] |= set(map(_name, node.bases))
                self.errors |= {node.name} if module == "errors.py" else set()
            case ast.Call():
                self.calls[_name(node.func)].append(node)
        if function is not None and function not in self.bound:
            self.bound[function] = defaultdict(list)
        for name, value in _bound(node):
            around = function
            while around is not None:  # an inner function shows in the one around it
                self.bound.setdefault(around, defaultdict(list))[name].append(value)
                around = self.function(around)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _matched(target, node.value, ast.Attribute):
                    self.stored[name].append((value, node))

    def faults(self):
        """A sentence for each expression that may be long, of several lines, or not printable."""
        shown = ((module, *each) for module, found in self.shown.items() for each in found)
        return [
            f"{module}, line {part.lineno}: {ast.unparse(part)}"
            for module, part, function in shown
            if not self.safe(part, function)
        ]

    def function(self, node):
        """The function that a node stands in, None for a module."""
        while (node := self.parent.get(node)) is not None and not isinstance(node, FUNCTIONS):
            pass
        return node

    def safe(self, node, function):
        """Whether an expression of a function is short and printable, as far as the source says."""
        if node in self.asked:  # a ring: safe unless something else in it is not
            return True
        self.asked.add(node)
        try:
            return self._safe(node, function)
        finally:
            self.asked.discard(node)

    def _safe(self, node, function):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in EXCEPTIONS:
            return True
        match node:
            case ast.FormattedValue(format_spec=ast.JoinedStr() as form) if set(ast.unparse(form)[2:-1]) & set(",dfg%"):
                return True  # no text can be formatted so
            case ast.FormattedValue(conversion=114, value=value):  # !r: of a constant of ours
                return _name(value.value if isinstance(value, ast.Subscript) else value).isupper()
            case ast.Name(id=name):
                caught = self.caught(node, name)
                if caught is not None:
                    return self._safe(caught, function)
                return name.strip("_").isupper() or name in PARTS or self._safe_name(node, function)
            case ast.Attribute(attr=name, value=value):
                return self._safe_attribute(name, value, function)
            case ast.Call():
                return self._safe_call(node, function)
            case ast.ExceptHandler(type=kind):
                names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
                return all(_name(each) in OURS or _name(each) in self.errors for each in names)
            case ast.Subscript(value=ast.Attribute(attr=name)) if self.fields[
                name
            ]:  # an entry: of an array, it is a number
                return not any(map(_textual, self.fields[name]))
            case ast.Compare() | ast.UnaryOp() | ast.Slice():
                return True
            case ast.BinOp(op=op) if not isinstance(op, ast.Add | ast.Mult | ast.Div):  # of texts and paths
                return True
            case ast.IfExp(body=body, orelse=other):
                return self.safe(body, function) and self.safe(other, function)
            case ast.GeneratorExp(elt=each) | ast.ListComp(elt=each) | ast.Subscript(value=each):
                return self.safe(each, function)
        return all(self.safe(each, function) for each in ast.iter_child_nodes(node))

    def caught(self, node, name):
        """The `except` clause that a name inside it stands for."""
        while (node := self.parent.get(node)) is not None:
            if isinstance(node, ast.ExceptHandler) and node.name == name:
                return node
        return None

    def _safe_attribute(self, name, value, function):
        if function is not None and function.name == "__post_init__" and ast.unparse(value) == "self":
            return name.isupper()  # fields are not checked yet
        if name in PARTS | PLACES or name.isupper():
            return True
        if ast.unparse(value) in COMMAND_LINE:
            return False
        if self.fields[name]:
            return not any(map(_textual, self.fields[name]))
        stored = self.stored[name]
        return all(self.safe(value, self.function(place)) for value, place in stored or [(value, value)])

    def _safe_call(self, node, function):
        name, called = _name(node.func), node.func
        if name in QUOTING | NUMBERS or (isinstance(called, ast.Attribute) and ast.unparse(called.value) == "np"):
            return True
        if name in RAW:
            return False
        if name == "map":
            return self.safe_function(_name(node.args[0]), self.module(node)) or all(
                self.safe(a, function) for a in node.args[1:]
            )
        if name == "tolist":
            return True  # an array of numbers
        if name in self.functions:
            return self.safe_function(name, self.module(node))
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        base = [called.value] if isinstance(called, ast.Attribute) else []
        return all(self.safe(each, function) for each in [*parts, *base])

    def module(self, node):
        """The syntax tree that a node stands in."""
        while self.parent.get(node) is not None:
            node = self.parent[node]
        return node

    def safe_function(self, name, module=None):
        """Whether the function of that name in a module, or all others if it has none, return what is safe."""
        if name in QUOTING | NUMBERS or name.rpartition("_")[2] in PARTS:
            return True
        functions = [each for each in self.functions[name] if self.module(each) is module] or self.functions[name]
        key = name, *functions
        if key not in self.known:
            self.known[key] = True  # while its own calls are looked at
            self.known[key] = bool(functions) and all(map(self._returns_safe, functions))
        return self.known[key]

    def _returns_safe(self, function):
        if function.returns is not None and not _textual(ast.unparse(function.returns)):
            return True
        found = [
            node for node in ast.walk(function) if isinstance(node, ast.Return) and self.function(node) is function
        ]
        return bool(found) and all(node.value is not None and self.safe(node.value, function) for node in found)

    def _safe_name(self, node, function):
        """Whether all that a function, or one around it, binds to a name is safe; a parameter until it is bound."""
        while function is not None:
            bound, parameters = self.bound.get(function, {}).get(node.id, []), _parameters(function)
            first = min((getattr(value, "lineno", 0) or 2**31 for value in bound), default=node.lineno)
            if node.id in parameters and node.lineno <= first:
                return self._safe_parameter(node.id, function, parameters)
            if bound:
                return all(self.safe(value, function) for value in bound)
            function = self.function(function)
        return True

    def _safe_parameter(self, name, function, parameters):
        """A parameter of a function that only the package calls: a number, or safe wherever it is called."""
        owner = self.parent[function] if isinstance(self.parent[function], ast.ClassDef) else None
        called = owner.name if owner is not None and function.name == "__init__" else function.name
        if (called if owner is None else owner.name) in self.public and not called.startswith("_"):
            return False
        annotation = parameters[name].annotation
        if annotation is not None and not _textual(ast.unparse(annotation)):
            return True
        place = list(parameters).index(name) - (owner is not None)
        given = []
        for call in self.calls[called]:
            named = [keyword.value for keyword in call.keywords if keyword.arg == name]
            given += [(value, call) for value in named or call.args[place : place + 1]]
        return bool(given) and all(self.safe(value, self.function(call)) for value, call in given)


def _name(node):
    """The last part of a dotted name, "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_message(node, function):
    """Whether the f-strings inside a node of the syntax tree are messages, or parts of some."""
    match node:
        case ast.Raise():
            return True
        case ast.Call(func=called):
            return _name(called).endswith(("Error", "Warning")) or _name(called) in MAKE_MESSAGES
        case ast.keyword(arg=name):
            return name in PARTS
        case ast.Return():
            return function is not None and function.name.rpartition("_")[2] in PARTS
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            return any(name in PARTS for name, _ in _bound(node))
    return False


def _textual(annotation):
    return bool(set(re.findall(r"\w+", annotation)) & TEXTUAL)


def _parameters(function):
    given = function.args
    rest = [each for each in (given.vararg, given.kwarg) if each is not None]
    return {each.arg: each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)}


def _bound(node):
    """Names that a node of the syntax tree binds, each with an expression for what it binds to it."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _matched(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _matched(target, value)
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from _matched(target, value)
        case ast.For(target=target, iter=row) | ast.comprehension(target=target, iter=row):
            yield from _of_row(target, row)
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield from _matched(target, value)
        case ast.ExceptHandler(name=str() as bound):
            yield bound, node


def _matched(target, value, kind=ast.Name):
    """Names, or attributes, of the target of an assignment with what they get, as far as it is written out."""
    if isinstance(target, kind):
        yield _name(target), value
    elif isinstance(target, ast.Starred):
        yield from _matched(target.value, value, kind)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
        for i, each in enumerate(target.elts):
            yield from _matched(each, parts[i] if parts else value, kind)


def _of_row(target, row):
    """What a loop binds: numbers of `range` and `enumerate`, the entries of a row that is written out."""
    call = _name(row.func) if isinstance(row, ast.Call) else ""
    if call == "range":
        yield from _matched(target, ast.Constant(0))
    elif call == "enumerate" and isinstance(target, ast.Tuple):
        yield from _matched(target.elts[0], ast.Constant(0))
        yield from _of_row(target.elts[1], row.args[0])
    elif call == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(row.args):
        for each, part in zip(target.elts, row.args, strict=True):
            yield from _of_row(each, part)
    elif isinstance(row, ast.Tuple | ast.List):
        for entry in row.elts:
            yield from _matched(target, entry)
    else:
        yield from _matched(target, row)


def faults_of(text):
    """What the check finds in a module of this text, as it is written there."""
    return [fault.rpartition(": ")[2] for fault in Source({"module.py": text, "errors.py": ERRORS}).faults()]


ERRORS = "class OurError(Exception): pass"

FAULTS = {
    "an argument": ("def solve(limit):\n    raise OurError(f'limit is {limit}')", "{limit}"),
    "an argument before its check": (
        "def solve(limit):\n    if limit < 0:\n        raise OurError(f'limit is {limit}')\n    limit = int(limit)",
        "{limit}",
    ),
    "in quotes": ("def solve(name: str):\n    raise OurError(f'unknown {name!r}')", "{name!r}"),
    "an argument that should be a number": ("def solve(step: int):\n    raise OurError(f'step {step}')", "{step}"),
    "an entry of it": ("def solve(names):\n    raise OurError(f'unknown {names[0]}')", "{names[0]}"),
    "one of several": ("def solve(names):\n    for x in names:\n        raise OurError(f'unknown {x}')", "{x}"),
    "by another name": ("def solve(a):\n    b = a.strip()\n    raise OurError(f'unknown {b}')", "{b}"),
    "all of them": ("def solve(a):\n    raise OurError(f'unknown {\", \".join(a)}')", "{', '.join(a)}"),
    "in the words of Python": ("def f(a):\n    b = int(a)\n    raise OurError(f'unknown {b!r}')", "{b!r}"),
    "a name of a row of a table": (
        "class Row:\n    reads: list[str]\ndef f(row):\n    for x in row.reads:\n        raise OurError(f'lost {x}')",
        "{x}",
    ),
    "cut by hand": ("def solve(a):\n    raise OurError(f'unknown {a[:40]!r}')", "{a[:40]!r}"),
    "a field before its check": (
        "class Plan:\n    size: int\n    def __post_init__(self):\n        raise OurError(f'{self.size} bytes')",
        "{self.size}",
    ),
    "a text of an object": ("class Node:\n    name: str\ndef f(v):\n    raise OurError(f'{v.name} reads')", "{v.name}"),
    "an argument of the command line": (
        "def run(arguments):\n    raise OurError(f'--most {arguments.most}')",
        "{arguments.most}",
    ),
    "the words of another library": (
        "def f():\n    try:\n        g()\n    except OSError as error:\n        raise OurError(f'no: {error}')",
        "{error}",
    ),
    "a warning": ("def f(a):\n    warnings.warn(f'ignored {a}', UserWarning)", "{a}"),
    "what a helper is told": (
        "def f(a):\n    _fail(f'no {a}')\ndef _fail(message):\n    raise OurError(message)",
        "{a}",
    ),
    "what a helper returns": (
        "def f(a):\n    raise OurError(f'no {_g(a)}')\ndef _g(a) -> str:\n    return a",
        "{_g(a)}",
    ),
    "what calls a private function": (
        "def f(a):\n    _g(a)\ndef _g(b: str):\n    raise OurError(f'unknown {b}')",
        "{b}",
    ),
    "a part of a message": ("def f(a):\n    remedy = f'drop {a}'\n    raise OurError(remedy)", "{a}"),
    "a reason that is returned": ("def needs_reason(a):\n    return f'{a} is none'", "{a}"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_finds(fault):
    text, expected = FAULTS[fault]
    assert faults_of(text) == [expected]


@pytest.mark.parametrize(
    "shown",
    [
        "{quoted(a)}",
        "{shortened(a)}",
        "{listed(a, 3)}",
        "{len(a):,}",
        "{a:d}",
        "{LIMIT}",
        "{type(a).__name__}",
        "{', '.join(map(shortened, a))}",
        "{'many' if a else quoted(a)}",
    ],
)
def test_the_check_lets_pass(shown):
    assert faults_of(f'def f(a):\n    raise OurError(f"a is {shown}")') == []


def test_the_text_of_our_own_error_passes():
    text = "def f():\n    try:\n        g()\n    except OurError as error:\n        raise OurError(f'table: {error}')"
    assert faults_of(text) == []


def test_a_number_of_a_private_function_passes():
    assert faults_of("def f(a):\n    _g(len(a))\ndef _g(n: int):\n    raise OurError(f'{n} are too many')") == []


def test_messages_quote_what_they_show():
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    del files["cache_folder.py"]  # on the left of text: it imports nothing of ours
    found = Source(dict(sorted(files.items()))).faults()
    assert not found, "use quoted(...) for a value and shortened(...) for a name:\n" + "\n".join(found)
