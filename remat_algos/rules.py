"""Built-in and user-defined rules: functions of a few numbers that decide what a solver does next.

A rule is a Python function, which numba compiles; a C function, as a `scipy.LowLevelCallable`; or the name of a
built-in rule, which is a C function too.
"""

import hashlib
import inspect
import json
import math
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remat_algos.cache_folder import cache_folder
from remat_algos.errors import ArgumentError
from remat_algos.files import write_whole
from remat_algos.kernels import rules as kernel
from remat_algos.kernels.rules import Rule, RuleFault
from remat_algos.wording import did_you_mean, install_command

SIGNATURES = ("double (int, double *)", "double (int, double *, void *)")
"""Signatures of C functions: number of arguments, arguments, and data of the user."""
SIMPLE = (bool, int, float, str, type(None))


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
        if isinstance(rule, tuple) and type(rule).__name__ == "LowLevelCallable":
            return self._of_c_function(rule)
        return self._of_python(getattr(rule, "py_func", rule))  # the function that numba.njit decorates

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

    def _of_c_function(self, rule: Any) -> Rule:
        if rule.signature not in SIGNATURES:
            raise ArgumentError(
                "the {purpose!w} is a C function of signature {signature!r}; use {signatures!l}",
                purpose=self.purpose,
                signature=rule.signature,
                signatures=SIGNATURES,
            )
        return Rule("C function", _capsule(rule), len(self.arguments), tuple(range(len(self.arguments))))

    def _of_python(self, function: Any) -> Rule:
        if not isinstance(function, types.FunctionType):
            raise ArgumentError(
                "the {purpose!w} is {function!r}; give a function, a scipy.LowLevelCallable, or one of {built_in!l}",
                purpose=self.purpose,
                function=function,
                built_in=list(self.built_in),
            )
        picks = self._picks(function)
        try:
            import numba
        except ImportError:
            warnings.warn(
                f"the {self.purpose} {function.__name__} runs as Python, which is slow; to compile it, "
                f"run {install_command('jit')}",
                RuntimeWarning,
                stacklevel=2,
            )
            return Rule(function.__name__, None, len(self.arguments), picks, function)
        return Rule(function.__name__, _compiled(numba, function, picks), len(self.arguments), picks, function)

    def _picks(self, function: types.FunctionType) -> tuple[int, ...]:
        parameters = inspect.signature(function).parameters.values()
        usual = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        wrong = [str(each) for each in parameters if each.name not in self.arguments or each.kind not in usual]
        if wrong or not parameters:
            raise ArgumentError(
                "the {purpose!w} {name} takes {wrong!w}; its parameters are one or more of {arguments!l}",
                purpose=self.purpose,
                name=function.__name__,
                wrong=", ".join(wrong) or "nothing",
                arguments=self.arguments,
            )
        return tuple(self.arguments.index(each.name) for each in parameters)

    @contextmanager
    def faults(self, rule: Rule) -> Iterator[None]:
        """Raise ArgumentError with the arguments if the rule raised, returned NaN, or was not deterministic."""
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


def _compiled(numba: Any, function: types.FunctionType, picks: tuple[int, ...]) -> Any:
    """Return the capsule of a C function that calls the function, and returns NaN if it raises."""
    from scipy import LowLevelCallable  # type: ignore[import-untyped]

    source = f"""def rule(n, x):
    try:
        return float(inner({", ".join(f"x[{i}]" for i in picks)}))
    except Exception:
        return nan
"""
    key = _fingerprint(function, source, numba.__version__)
    folder = cache_folder("rules", "compiled rules") if key else None
    file = Path(folder, key, "rule.py") if folder and key else None
    if file is not None and not file.exists():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(file, source.encode())
    names = {"inner": numba.njit(function), "nan": math.nan, "__name__": __name__}
    exec(compile(source, str(file or "<rule>"), "exec"), names)
    number = numba.types.float64
    before = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(file.parent) if file else before
        signature = number(numba.types.intc, numba.types.CPointer(number))
        compiled = numba.cfunc(signature, cache=file is not None)(names["rule"])
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = next((line for line in lines if line and not line.startswith("Failed in nopython")), "")
        raise ArgumentError(
            "numba cannot compile {name}: {reason!w}; use numbers and functions of math alone, and return a number",
            name=function.__name__,
            reason=reason.rstrip("."),
        ) from error
    finally:
        numba.config.CACHE_DIR = before
    # The capsule keeps no reference to the compiled code.
    _KEPT.append(compiled)
    return _capsule(LowLevelCallable(compiled.ctypes, signature=SIGNATURES[0]))


_KEPT: list[Any] = []


def _capsule(function: Any) -> Any:
    return tuple.__getitem__(function, 0)


def _fingerprint(function: types.FunctionType, *others: str) -> str | None:
    """Return a hash of all that a function depends on; None if it reads more than numbers, strings and modules."""
    code = function.__code__
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    read = [function.__globals__.get(name) for name in code.co_names if name in function.__globals__]
    known = [value.__name__ if isinstance(value, types.ModuleType) else value for value in [*closure, *read]]
    parts = [*code.co_consts, *known]
    if not all(isinstance(part, SIMPLE) for part in parts):
        return None
    text = json.dumps([code.co_code.hex(), code.co_names, code.co_varnames, [repr(part) for part in parts], others])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
