"""Built-in and user-defined rules: functions of a few numbers that decide what a solver does next.

A rule is a Python function, which numba compiles; a C function, as a `scipy.LowLevelCallable`; or the name of a
built-in rule, which is a C function too.
"""

import hashlib
import inspect
import json
import math
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.cache_folder import cache_folder
from remat_algos.errors import ArgumentError
from remat_algos.files import write_whole
from remat_algos.kernels import rules as kernel
from remat_algos.kernels.rules import Rule, RuleFault
from remat_algos.wording import did_you_mean, install_command

SIGNATURES = ("double (int, double *)", "double (int, double *, void *)")
"""Signatures of C functions: number of arguments, arguments, and data of the user."""
C_FUNCTION = "C function"
SIMPLE = (bool, int, float, str, type(None))
LIBRARIES = (math, np)
"""Modules whose functions do not change between two runs."""


@dataclass(frozen=True, slots=True)
class RuleKind:
    """Rules for one purpose.

    arguments : their names, in the order in which a C function gets them
    built_in : for each built-in rule, the arguments that it reads
    """

    purpose: str
    arguments: tuple[str, ...]
    built_in: Mapping[str, tuple[str, ...]]

    def rule(self, rule: Any) -> Rule:
        """Return the rule as a C function. Raise ArgumentError if it is not suitable."""
        if isinstance(rule, Rule):
            return rule
        if isinstance(rule, str):
            return self._named(rule)
        if is_c_function(rule):
            return self._of_c_function(rule, self.arguments)
        if isinstance(rule, tuple) and len(rule) == 2 and is_c_function(rule[0]):
            return self._of_c_function(*rule)
        return self._of_python(rule)

    def _named(self, name: str) -> Rule:
        if name not in self.built_in:
            raise ArgumentError(
                "there is no {purpose!w} {name!r}; {remedy!w}, or give a function",
                purpose=self.purpose,
                name=name,
                remedy=did_you_mean(name, self.built_in).strip("; ?") or f"use {', '.join(self.built_in)}",
            )
        capsule, picks = kernel.__pyx_capi__[name], map(self.arguments.index, self.built_in[name])
        return Rule(name, capsule, len(self.arguments), tuple(picks))

    def _of_c_function(self, function: Any, reads: Any) -> Rule:
        if function.signature not in SIGNATURES:
            raise ArgumentError(
                "the {purpose!w} is a C function of signature {signature!r}; use {signatures!l}",
                purpose=self.purpose,
                signature=function.signature,
                signatures=SIGNATURES,
            )
        reads = [*reads] if isinstance(reads, list | tuple) else [reads]
        unknown = [name for name in reads if name not in self.arguments]
        if unknown:
            self._refuse_parameters(C_FUNCTION, ", ".join(map(str, unknown)))
        picks = tuple(self.arguments.index(name) for name in reads)
        # LowLevelCallable is a tuple that refuses indexing; its first item is the capsule.
        return Rule(C_FUNCTION, tuple.__getitem__(function, 0), len(self.arguments), picks, owner=function)

    def _of_python(self, rule: Any) -> Rule:
        function = getattr(rule, "py_func", rule)  # the function that numba.njit decorates
        if not isinstance(function, types.FunctionType):
            raise ArgumentError(
                "the {purpose!w} is {function!r}; give a function, a scipy.LowLevelCallable, or one of {built_in!l}",
                purpose=self.purpose,
                function=function,
                built_in=list(self.built_in),
            )
        picks, name, n = self._picks(function), function.__name__, len(self.arguments)
        try:
            import numba

            why = "NUMBA_DISABLE_JIT is set" if numba.config.DISABLE_JIT else ""
        except Exception as error:  # not installed, or unusable with these versions
            missing = isinstance(error, ModuleNotFoundError)
            why = f"run {install_command('jit')} to compile it" if missing else f"numba cannot be imported: {error}"
        if why:
            warnings.warn(
                f"the {self.purpose} {name} runs as Python, which is slow; {why}", RuntimeWarning, stacklevel=2
            )
            return Rule(name, None, n, picks, function)
        compiled = _compiled(numba, rule, picks)
        return Rule(name, tuple.__getitem__(compiled, 0), n, picks, function, compiled)

    def _picks(self, function: types.FunctionType) -> tuple[int, ...]:
        parameters = inspect.signature(function).parameters.values()
        usual = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        wrong = [str(each) for each in parameters if each.name not in self.arguments or each.kind not in usual]
        if wrong or not parameters:
            self._refuse_parameters(function.__name__, ", ".join(wrong) or "nothing")
        return tuple(self.arguments.index(each.name) for each in parameters)

    def _refuse_parameters(self, name: str, wrong: str) -> None:
        raise ArgumentError(
            "the {purpose!w} {name} takes {wrong!w}; its parameters are one or more of {arguments!l}",
            purpose=self.purpose,
            name=name,
            wrong=wrong,
            arguments=self.arguments,
        )

    @contextmanager
    def faults(self, rule: Rule) -> Iterator[None]:
        """Raise ArgumentError with the arguments if the rule raised, returned NaN, or was not deterministic."""
        rule.error = None
        try:
            yield
        except RuleFault as fault:
            error = rule.error
            if error is None and rule.function is not None and fault.again is None:
                try:
                    float(rule.function(*(fault.arguments[i] for i in rule.picks)))
                except Exception as raised:
                    error = raised
            if error is not None and not isinstance(error, Exception):
                raise error from None
            what = f"raised {type(error).__name__}: {error}"
            if error is None:
                what = "returned nan" if fault.again is None else f"returned {fault.first!r} and then {fault.again!r}"
            raise ArgumentError(
                "the {purpose!w} {name} {what!w} for {listed!w}; return a number that depends on the arguments alone",
                purpose=self.purpose,
                name=rule.name,
                what=what,
                listed=self.listed(rule, fault.arguments),
            ) from error

    def listed(self, rule: Rule, arguments: Any) -> str:
        """Return the arguments that a rule reads, with their names."""
        return ", ".join(f"{self.arguments[i]}={arguments[i]:.17g}" for i in rule.picks)


def _compiled(numba: Any, rule: Any, picks: tuple[int, ...]) -> Any:
    """Return the LowLevelCallable of a C function that calls a function, and returns NaN if that raises."""
    from scipy import LowLevelCallable  # type: ignore[import-untyped]

    function = getattr(rule, "py_func", rule)
    source = f"""def rule(n, x):
    try:
        return inner({", ".join(f"x[{i}]" for i in picks)}) + 0.0
    except Exception:
        return nan
"""
    # Without bounds checks, an index past the end of an array would read other memory.
    inner = numba.njit(boundscheck=True)(function) if rule is function else rule
    names = {"inner": inner, "nan": math.nan, "__name__": __name__}
    signature = numba.types.float64(numba.types.intc, numba.types.CPointer(numba.types.float64))
    key = _fingerprint(function, source, numba.__version__) if rule is function else None
    compiled = _from_cache(numba, names, signature, source, key) if key else None
    try:
        if compiled is None:
            exec(compile(source, "<rule>", "exec"), names)
            compiled = numba.cfunc(signature)(names["rule"])
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = next((line for line in lines if line and not line.startswith("Failed in nopython")), "")
        if "found for signature" in reason or "unify" in reason:
            reason = "it does not always return a number"
        raise ArgumentError(
            "numba cannot compile {name}: {reason!w}; use numbers and functions of math alone, and return a number",
            name=function.__name__,
            reason=reason.rstrip("."),
        ) from error
    return LowLevelCallable(compiled.ctypes, signature=SIGNATURES[0])


_CACHE_LOCK = threading.Lock()


def _from_cache(numba: Any, names: dict[str, Any], signature: Any, source: str, key: str) -> Any:
    """Compile with Numba's cache in our folder, or load from there. Return None if the cache cannot be used."""
    folder = cache_folder("rules", "compiled rules")
    if folder is None:
        return None
    file = folder / key / "rule.py"
    with _CACHE_LOCK, suppress(Exception):  # a damaged or removed file, a full disk, or a fault of the rule
        before = numba.config.CACHE_DIR
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not file.exists():
                write_whole(file, source.encode())
            exec(compile(source, str(file), "exec"), names)
            numba.config.CACHE_DIR = str(file.parent)
            return numba.cfunc(signature, cache=True)(names["rule"])
        finally:
            numba.config.CACHE_DIR = before
    return None


def is_c_function(value: Any) -> bool:
    """Return True for a scipy.LowLevelCallable; SciPy is not imported."""
    return isinstance(value, tuple) and type(value).__name__ == "LowLevelCallable"


def rule_name(value: Any) -> str | None:
    """Return what plans record instead of a rule that is a function; None for other values."""
    if is_c_function(value) or (type(value) is tuple and len(value) == 2 and is_c_function(value[0])):
        return C_FUNCTION
    return f"function {getattr(value, '__name__', type(value).__name__)}" if callable(value) else None


def _fingerprint(function: types.FunctionType, *others: str) -> str | None:
    """Return a hash of all that a function depends on; None if it reads more than numbers, strings, math and numpy."""
    code = function.__code__
    try:
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # an empty cell
        return None
    read = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    parts = [
        *code.co_consts,
        *(
            value.__name__ if isinstance(value, types.ModuleType) and value in LIBRARIES else value
            for value in [*closure, *read]
        ),
    ]
    if not all(isinstance(part, SIMPLE) for part in parts):
        return None
    text = json.dumps([code.co_code.hex(), code.co_names, code.co_varnames, [repr(part) for part in parts], others])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
