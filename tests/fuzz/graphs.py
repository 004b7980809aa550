"""Every solver on random graphs and budgets, against a simulator and an optimum that share no code with the package."""

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import remat_algos as ra
from remat_algos.formats.graphs.npz_bytes import to_npz
from tests.fuzz.random_graphs import random_graph
from tests.oracles.plain import plain
from tests.oracles.search import least_compute, least_peak
from tests.oracles.simulation import Unsound, slow_simulation

UNIT = "solves"
LONGEST_MESSAGE = 1500
LARGEST_BYTES = 2**63 - 1  # of a budget: larger ones are clipped
SMALL_NODES, SMALL_VALUES = 8, 10  # up to which the true optimum is searched
EXPONENTIAL = (
    "exact_dp",
    "exhaustive_lower_sets",
    "live_set_search",
    "milp",
)  # in the graph's size: they get a time limit where it is not small
STRATEGIES = (None, "time", "memory", "cache")
OPTIONS = {  # values that are tried beside the defaults; those that do not fit are refused in one sentence
    "approximate_dp": {"family": ("wide", "pruned"), "strategy": STRATEGIES, "formula_budget": (None, 20, 10**6)},
    "exact_dp": {"strategy": STRATEGIES, "formula_budget": (None, 30), "keep_last": (True, False), "cap": (10**6, 5)},
    "exhaustive_lower_sets": {"strategy": STRATEGIES, "formula_budget": (None, 30), "keep_last": (True, False)},
    "chen_greedy": {"candidates": (None, "articulation", "all"), "keep_last": (None, True, False)},
    "chen_recursive": {"splits": (None, 1, 3, 100), "depth": (None, 1, 9), "keep_last": (None, True, False)},
    "chen_sqrt": {"segments": (None, 1, 2, 1000), "candidates": (None, "articulation", "all"), "unit": (1, 3, 2**31)},
    "drop_cheap": {"threshold": (None, 0, 0.5, 1e30), "keep": ("heavy", "mxnet")},
    "echo": {"mode": ("exact", "paper")},
    "greedy_remat": {"max_block": (None, 1, 3, 10**6)},
    "liveness_dp": {"family": ("wide", "pruned", "exact"), "lazy": (None, True, False)},
    "twremat": {"recursion_limit": (None, 1, 5, 10**6), "batching": (None, True, False), "orders": (None, 1, 4)},
    "pathremat": {"recursion_limit": (None, 1, 5), "batching": (None, True, False), "length_limit": (30.0, 1.5)},
    "milp": {"mip_gap": (0.0, 0.1)},
    "live_set_search": {"max_states": (None, 1, 100)},
    "search": {"max_moves": (1, 5_000, 40_000)},
    "revolve": {"checkpoints": (None, 1, 2, 1000)},
    "chain_dp": {"slots": (None, 1, 7, 3000), "stages": (240, 1, 2, 5)},
}


def case(rng, report):
    """One graph, two budgets, all solvers, as they are and polished."""
    report.count("graphs")
    try:
        subject = Subject(random_graph(rng))
    except ra.GraphError as error:
        report.count("graphs refused")
        check_sentence(report, error, "random_graph")
        return
    for _ in range(2):
        budget = random_budget(rng, subject)
        for name in [solver.name for solver in ra.list_solvers()]:
            if subject.large and rng.random() < 0.5:
                continue
            options = random_options(rng, name)
            for raw in (False, True):
                solved(
                    rng, report, Call(subject, budget, name, raw=raw, options=options, seed=rng.choice((0, 1, 2**31)))
                )
        if rng.random() < 0.35:
            solved(rng, report, Call(subject, budget, "auto"))
    if rng.random() < 0.06:
        reserved(rng, report, subject)
    if rng.random() < 0.1:
        round_trips(report, subject.graph)


# ---------------------------------------------------------------- graphs, budgets, calls


@dataclasses.dataclass(slots=True)
class Subject:
    """A graph with what the oracles say of it."""

    graph: ra.ComputationGraph
    lists: Any = None
    base: Any = None  # the run of needed nodes in id order, without marks
    base_is_sound: bool = True
    verdicts: dict[tuple[int, ...], Any] = dataclasses.field(default_factory=dict)
    optima: dict[int | None, int | None] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lists = plain(self.graph)
        once = [once or mark == 1 for once, mark in zip(self.lists.once, self.lists.mark, strict=True)]
        self.lists = dataclasses.replace(self.lists, once=once)
        order = sorted(self.lists.needed())
        self.base = slow_simulation(dataclasses.replace(self.lists, mark=[0] * len(once)), order)
        self.base_is_sound = not isinstance(self.verdict(order), Unsound)

    @property
    def large(self) -> bool:
        return self.graph.n_nodes > 30

    @property
    def small(self) -> bool:
        return len(self.lists.needed()) <= SMALL_NODES and self.graph.n_values <= SMALL_VALUES

    def verdict(self, order):
        """What a schedule holds and costs, or the law that it breaks."""
        key = tuple(order)
        if key not in self.verdicts:
            try:
                self.verdicts[key] = slow_simulation(self.lists, order)
            except Unsound as broken:
                self.verdicts[key] = broken
        return self.verdicts[key]

    def optimum(self, limit: int | None) -> int | None:
        """The least compute of any schedule within a limit, None where there is none; without a limit the least peak.

        Marks to recompute and updates are not looked at, so no schedule that honours them is better.
        """
        if limit not in self.optima:
            found = least_peak(self.lists) if limit is None else least_compute(self.lists, limit)
            self.optima[limit] = None if found is None else found[0]
        return self.optima[limit]

    @property
    def optimum_is_exact(self) -> bool:
        return 2 not in self.lists.mark and not self.graph.updates.any()


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A budget, and what it comes to by arithmetic of our own."""

    budget: Any
    memory: int | None = None
    overhead: int | None = None
    lowest: bool = False  # the peak counts before the compute


def random_budget(rng, subject):
    """Bytes, shares, the least, overheads and devices, near what matters and far from it."""
    base, resident = subject.base.peak, sum(subject.lists.resident_memory)
    one_pass, scale = subject.base.compute, subject.graph.labels.compute_scale
    bound = max((held(subject.lists, v) for v in subject.lists.needed()), default=0)
    percent = rng.choice(("1", "25", "50", "60", "75", "90", "99.9", "100", "150"))
    share = int(Fraction(percent) * base / 100)
    overhead, most = rng.choice(
        [(f"{p}%", int(Fraction(p) * one_pass / 100)) for p in ("0", "5.5", "30", "200")] + [(3, 3 * scale)]
    )
    some = rng.choice((0, 1, bound, max(bound - 1, 0), base, 2**53, 2**63 - 1, 2**63, 2**64))
    near, device = rng.randint(min(bound, base), max(bound, base)), rng.randint(0, base + resident + 1)
    return rng.choices(
        [
            Request(near, near),
            Request(f"{percent}%", share),
            Request("least", lowest=True),
            Request(None, lowest=True),
            Request(some, min(some, LARGEST_BYTES)),
            Request(ra.Budget(overhead=overhead), None, most, lowest=True),
            Request(ra.Budget(memory=f"{percent}%", overhead=overhead), share, most),
            Request(ra.Budget(device=device), device - resident),
            Request(ra.Budget(memory=f"{percent}%", device=device), min(share, device - resident)),
        ],
        (35, 15, 10, 5, 5, 8, 7, 8, 7),
    )[0]


def held(lists, node):
    """Bytes that a node needs while it runs."""
    return lists.workspace[node] + sum(lists.memory[x] for x in {*lists.reads[node], *lists.values[node]})


def random_options(rng, name):
    known = OPTIONS.get(name, {})
    if rng.random() < 0.6:
        return {}
    return {option: rng.choice(values) for option, values in known.items() if rng.random() < 0.5}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call of `solve`; its text is that of Python."""

    subject: Subject
    request: Request
    solver: str
    raw: bool = False
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    time_limit: float | None = None

    def __call__(self) -> ra.Plan:
        return ra.solve(self.subject.graph, self.request.budget, solver=self.solver, **self._keywords())

    def __str__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self._keywords().items())
        return f"solve(graph, {self.request.budget!r}, solver={self.solver!r}{given})"

    def _keywords(self) -> dict[str, Any]:
        known = {"raw": self.raw, "seed": self.seed, "time_limit": self.time_limit}
        return {name: value for name, value in known.items() if value} | self.options

    def files(self) -> dict[str, bytes]:
        return {"graph.npz": to_npz(self.subject.graph), "call.txt": f"{self}\n".encode()}


# ---------------------------------------------------------------- checks


def solved(rng, report, call):
    """Solve once and check what comes."""
    if call.solver == "milp":  # many programs for a whole frontier, on small graphs too
        call = dataclasses.replace(call, time_limit=0.05)
    elif call.solver in EXPONENTIAL and not call.subject.small:
        call = dataclasses.replace(call, time_limit=0.02)
    elif rng.random() < 0.03:
        call = dataclasses.replace(call, time_limit=rng.choice((0, 1e-6, 0.001)))
    report.count("solves")
    plan = outcome(report, call, call)
    if isinstance(plan, ra.BudgetError):
        report.count("out of budget")
        check_refusal(report, call, plan)
    elif isinstance(plan, ra.Plan):
        report.count("plans")
        check_plan(report, call, plan)
        if rng.random() < 0.05:
            check_file(report, call, plan)
        if call.time_limit is None and rng.random() < 0.08:
            check_again(report, call, plan)
    elif plan is not None:
        report.count("refused")


def outcome(report, call, function: Callable[[], Any]):
    """What a call gives: its result, the error that it may raise, or None after a fault."""
    try:
        return function()
    except ra.RematError as error:
        check_sentence(report, error, str(call))
        return error
    except (TypeError, ValueError) as error:
        if call.options or call.request.memory == LARGEST_BYTES:  # such an option or size does not fit
            return error
        report.fault(f"{type(error).__name__}", f"{error}: {call}", call.files())
    except Exception as error:
        report.fault(f"{type(error).__name__}", f"{error}: {call}", call.files())
    return None


def check_sentence(report, error, what):
    if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
        report.fault("an error is no sentence", f"{what}: {str(error)[:200]!r}")


def check_refusal(report, call, error):
    """A budget is refused with a true lower bound, and never where no rematerialization fits."""
    subject, request = call.subject, call.request
    fault = functools.partial(faulty, report, call)
    if error.reached < error.lower_bound:
        fault("reached below the lower bound", f"{error.reached} < {error.lower_bound}")
    if subject.small:
        lowest = subject.optimum(None)
        if error.lower_bound > lowest and subject.optimum_is_exact:
            fault("lower bound above the least peak", f"{error.lower_bound} > {lowest}")
        if error.reached < lowest:
            fault("reached below the least peak", f"{error.reached} < {lowest}")
    by_formula = call.options.get("formula_budget") is not None  # a second budget, which that run need not keep
    if not (call.raw or by_formula) and subject.base_is_sound and fits(request, subject.base):
        fault("refused though no rematerialization fits", str(error))


def check_plan(report, call, plan):
    """All that a plan claims, and that it is worth having."""
    subject, request = call.subject, call.request
    fault = functools.partial(faulty, report, call)
    found = subject.verdict(plan.schedule.order.tolist())
    if isinstance(found, Unsound):
        fault("schedule that cannot be run", str(found))
        return
    claims = plan.peak_memory, plan.simulation.compute, plan.overhead, plan.limit, plan.simulation.memory_trace.tolist()
    truth = found.peak, found.compute, found.overhead, request.memory, found.trace
    if claims != truth:
        fault("figures that are not so", f"claimed {claims}, found {truth}")
    if not fits(request, found):
        fault("plan above its budget", f"peak {found.peak}, overhead {found.overhead}, {request}")
    if plan.bound is not None and plan.bound.amount > found.compute:
        fault("bound above the plan", f"{plan.bound.amount} > {found.compute}")
    if subject.small:
        report.count("compared with the optimum")
        check_optimum(fault, subject, plan, found)
    base = subject.base
    if not call.raw and subject.base_is_sound and fits(request, base):
        worse = (
            (found.peak, found.compute) > (base.peak, base.compute) if request.lowest else found.compute > base.compute
        )
        if worse:
            fault("worse than no rematerialization", f"{found.peak}, {found.compute}; {base.peak}, {base.compute}")


def check_optimum(fault, subject, plan, found):
    if found.peak < subject.optimum(None):
        fault("peak below the optimum", f"{found.peak} < {subject.optimum(None)}")
    if plan.limit is None:
        return
    best = subject.optimum(plan.limit)
    if best is None or found.compute < best:
        fault("compute below the optimum", f"{found.compute}, optimum {best}")
    elif (
        plan.bound is not None
        and plan.bound.scope == "any order"
        and plan.bound.amount > best
        and subject.optimum_is_exact
    ):
        fault("bound above the optimum", f"{plan.bound.amount} > {best}")


def check_file(report, call, plan):
    """A plan is written, read, and verified against its graph."""
    report.count("plans read again")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan.json")
        plan.save(path)
        for read in (functools.partial(ra.Plan.load, path, plan.graph), functools.partial(ra.verify, plan.graph, path)):
            again = outcome(report, call, read)
            if isinstance(again, Exception):
                faulty(report, call, "a plan is not accepted when it is read again", str(again))


def check_again(report, call, plan):
    report.count("solved a second time")
    again = outcome(report, call, call)
    if not isinstance(again, ra.Plan) or again.schedule.order.tolist() != plan.schedule.order.tolist():
        faulty(report, call, "another plan the second time", str(again))


def fits(request, found):
    within = request.memory is None or found.peak <= request.memory
    return within and (request.overhead is None or found.overhead <= request.overhead)


def faulty(report, call, kind, detail):
    report.fault(kind, f"{detail}: {call}", call.files())


# ---------------------------------------------------------------- arenas, allocators, files


def reserved(rng, report, subject):
    """Plans for an arena or an allocator: what is reserved is at least the peak and keeps to the limit."""
    ways = (
        {"allocator": "arena", "alignment": rng.choice((1, 64, 512))},
        {"allocator": "cupy_pool"},
        {"allocator": "cuda_caching"},
    )
    for way in ways:
        request = Request(rng.choice(("100%", "80%", "least")), lowest=True)
        call = Call(subject, request, rng.choice(("greedy_remat", "no_remat")), options=way, time_limit=0.5)
        report.count("solves")
        plan = outcome(report, call, call)
        if not isinstance(plan, ra.Plan):
            continue
        found = subject.verdict(plan.schedule.order.tolist())
        taken = plan.reservation.memory
        if isinstance(found, Unsound) or found.peak != plan.peak_memory:
            faulty(
                report,
                call,
                "schedule that cannot be run" if isinstance(found, Unsound) else "figures that are not so",
                str(found),
            )
        elif not found.peak <= taken or (plan.limit is not None and taken > plan.limit):
            faulty(
                report,
                call,
                "reserved bytes that cannot be",
                f"peak {found.peak}, reserved {taken}, limit {plan.limit}",
            )
        else:
            check_file(report, call, plan)


def round_trips(report, graph):
    """A graph is the same after it was written and read in each format."""
    report.count("graphs read again")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("g.json", "g.npz", "g.graphml", "g.nodes.csv"):
            try:
                ra.write_graph(graph, Path(folder, name))
                same = ra.read_graph(Path(folder, name)).hash == graph.hash
            except Exception as error:
                report.fault(
                    f"{type(error).__name__} in a round trip", f"{name}: {error}", {"graph.npz": to_npz(graph)}
                )
            else:
                if not same:
                    report.fault("another graph after a round trip", name, {"graph.npz": to_npz(graph)})
