"""The pages on which algorithms step, in Chromium: their results against the package, their controls, their input.

The scripts of a page compute in the browser, so their results on random graphs are compared here.
"""

import random
from itertools import pairwise

import pytest

import remat_algos as ra
from docs.steps import pages as steps
from remat_algos.bounds.bound import LowerBound, Prices
from remat_algos.bounds.closure import closure_cut, cuts_of, overhead_bound
from remat_algos.structure.elimination import elimination_of
from tests.browser import serious

sync_api = pytest.importorskip("playwright.sync_api", reason="browser: NOT RUN, playwright is not installed")
NAMES = sorted(steps.PAGES)
GRAPHS = 50
ALL_STEPS = """steps.frames.map((_, step) => {
    steps.go(step);
    const current = document.querySelectorAll(".program [aria-current=step]");
    return [current.length, document.querySelector("[role=status]").textContent];
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("steps")
    steps.write(path)
    return path


@pytest.fixture
def opened(offline, folder):
    return lambda name, *size, **options: offline(folder / f"{name}.html", *size, **options)


# ---------------------------------------------------------------- results, against the package


def random_graphs(fewest, most, share):
    """Graphs of up to `most` nodes, each as the package and as a page reads it; ids are in topological order."""
    for seed in range(GRAPHS):
        rng = random.Random(seed)
        n = rng.randint(fewest, most)
        edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < share]
        memory, compute = ([rng.randint(1, 9) for _ in range(n)] for _ in range(2))
        yield as_text(n, edges, memory, compute), ra.ComputationGraph.from_edges(edges, memory, compute, n_nodes=n)


def as_text(n, edges, memory, compute):
    nodes = [f"n{v}={memory[v]}/{compute[v]}" for v in range(n)]
    return " ".join([*nodes, *(f"n{u}>n{v}" for u, v in edges)])


def training_graphs(most):
    """Random graphs with their gradients, of up to `most` nodes, each as a page reads it too."""
    for _, forward in random_graphs(3, 5, 0.4):
        graph = ra.differentiate(forward)
        if graph.n_nodes <= most:
            edges = [(u, v) for v in range(graph.n_nodes) for u in graph.reads(v)]
            yield as_text(graph.n_nodes, edges, graph.memory.tolist(), graph.compute.tolist()), graph


def computed(page, call, cases):
    """The results of an expression of `graph` and `option` for many cases (text of a graph, option)."""
    script = f"(cases) => cases.map(([text, option]) => {{ const graph = readGraph(text, 20); return {call}; }})"
    return page.evaluate(script, cases)


def test_the_table_of_lower_sets_ends_at_the_optimum_of_exact_dp(opened):
    cases = []
    for text, forward in random_graphs(2, 6, 0.5):
        training = ra.differentiate(forward)
        least = ra.solvers.least_budget(training)
        cases += [(text, budget, training) for budget in (least - 1, least, least + 3, 2 * least)]
    results = computed(
        opened("lower_sets"), "record(exactProgram(graph, option)).result", [list(case[:2]) for case in cases]
    )
    for (_, budget, training), result in zip(cases, results, strict=True):
        fitting = [overhead for overhead, peak, _ in ra.solvers.formula_frontier(training) if peak <= budget]
        assert result["overhead"] == min(fitting, default=None)
        sets = ra.structure.lower_set_family(training).sets()
        assert sorted(result["sets"]) == sorted(sum(1 << v for v in nodes) for nodes in sets)
        if fitting:
            plan = ra.solve(training, solver="exact_dp", formula_budget=budget, keep_last=False, lazy=False, raw=True)
            assert plan.details["formula_overhead"] == result["overhead"]
            chain = [[v for v in range(20) if word >> v & 1] for word in result["chain"]]
            chain = ra.structure.LowerSets.of(training, chain)
            assert (chain.overhead(training), chain.peak(training) <= budget) == (result["overhead"], True)


@pytest.mark.parametrize("rule", ["fill", "degree"])
def test_an_elimination_has_the_order_the_bags_and_the_tree_of_the_package(opened, rule):
    cases = list(random_graphs(1, 10, 0.35))
    results = computed(
        opened("elimination"), "record(eliminate(graph, option)).result", [[text, rule] for text, _ in cases]
    )
    for (_, graph), result in zip(cases, results, strict=True):
        elimination = ra.structure.eliminate(ra.structure.UndirectedGraph.of(graph), rule)
        assert result["order"] == elimination.order.tolist()
        assert result["bags"] == [sorted(elimination.bag(i)) for i in range(graph.n_nodes)]
        assert result["parents"] == ra.structure.TreeDecomposition.of(elimination).parent.tolist()
        assert (result["width"], result["fill"]) == (elimination.width, elimination.fill_in)


def recursive_plan(memory, k, depth, keep_last):
    edges = [(i, i + 1) for i in range(len(memory) - 1)]
    chain = ra.differentiate(ra.ComputationGraph.from_edges(edges, memory, n_nodes=len(memory)))
    options = {"splits": k, "depth": depth, "candidates": "all", "keep_last": keep_last}
    return ra.solve(chain, solver="chen_recursive", raw=True, **options)


def test_the_recursion_runs_the_schedule_of_chen_recursive(opened):
    cases = []
    for seed in range(GRAPHS):
        rng = random.Random(seed)
        memory = [rng.randint(1, 9) for _ in range(rng.randint(2, 20))]
        cases.append((memory, rng.randint(1, 4), rng.randint(1, 5), rng.random() < 0.5))
    texts = [as_text(len(m), [(v, v + 1) for v in range(len(m) - 1)], m, m) for m, *_ in cases]
    call = "((result) => [result.runs, result.live.map((live) => liveBytes(graph, live))])"
    call += "(record(recursion(graph, ...option)).result)"
    results = computed(opened("recursion"), call, [[text, rest] for text, (_, *rest) in zip(texts, cases, strict=True)])
    for (memory, *options), (runs, trace) in zip(cases, results, strict=True):
        plan, n = recursive_plan(memory, *options), len(memory)
        # A gradient is ~v in the page, and in the order from the last layer to the first in the package.
        assert [v if v >= 0 else 2 * n - 1 - ~v for v in runs] == plan.schedule.order.tolist()
        assert trace == plan.simulation.memory_trace.tolist()


def test_the_largest_bound_of_all_price_sweeps_is_the_closure_bound(opened):
    cases = []
    for text, graph in [*random_graphs(3, 9, 0.3), *training_graphs(20)]:
        least, _ = ra.bounds.least_peak_bound(graph)
        cases += [(text, least + more, graph) for more in (-2, 0, 1, 2)]
    call = "graph.names.map((_, v) => record(priceSweep(graph, v, option)).result.overhead)"
    results = computed(opened("closure_cut"), call, [list(case[:2]) for case in cases])
    positive = 0
    for (_, limit, graph), overheads in zip(cases, results, strict=True):
        bound = overhead_bound(graph, limit)
        assert (None in overheads) == bound.infeasible
        if not bound.infeasible:
            assert max(overheads) == bound.amount - graph.needed_compute
            positive += max(overheads) > 0
    assert positive > GRAPHS


def test_the_search_over_live_sets_ends_at_the_optimum(opened):
    cases = []
    for text, graph in [*random_graphs(3, 8, 0.4), *training_graphs(12)]:
        least = ra.solve(graph, "least", solver="live_set_search").peak_memory
        cases += [(text, limit, graph) for limit in (least - 1, least, least + 2)]
    results = computed(
        opened("live_sets"), "record(liveSetSearch(graph, option)).result", [list(case[:2]) for case in cases]
    )
    positive = 0
    for (_, limit, graph), result in zip(cases, results, strict=True):
        try:
            optimum = ra.solve(graph, limit, solver="live_set_search").overhead
        except ra.BudgetError:
            assert result["overhead"] is None
            continue
        run = ra.simulate(graph, result["order"])
        assert result["overhead"] == optimum == run.overhead
        assert run.peak_memory <= limit
        positive += optimum > 0
    assert positive > GRAPHS // 3


# ---------------------------------------------------------------- frames of the first example


def example(name):
    """The first example of a page as a graph of the package, with ids in the order of the page, and its options."""
    first = steps.PAGES[name]["examples"][0]
    edges, sizes = [], {}
    for word in first["graph"].split():
        if ">" in word:
            row = word.split(">")
            edges += [pair for pair in pairwise(row) if pair not in edges]
        else:
            node, _, amounts = word.partition("=")
            sizes[node] = [int(amount) for amount in [*amounts.split("/"), "1"][:2]]
    nodes = dict.fromkeys(node for pair in edges for node in pair)
    memory, compute = ({node: sizes.get(node, (1, 1))[i] for node in nodes} for i in range(2))
    return ra.ComputationGraph.from_edges(edges, memory, compute), first["options"]


def test_frames_of_the_lower_sets_have_the_terms_of_the_package(opened):
    forward, options = example("lower_sets")
    training = ra.differentiate(forward)
    page = opened("lower_sets")
    page_names = page.evaluate("steps.graph.names")
    frames = page.evaluate(
        "steps.frames.filter((frame) => frame.step).map((f) => [f.family[f.i], f.family[f.j], f.step.terms])"
    )

    def nodes(word):
        return [page_names[v] for v in range(len(page_names)) if word >> v & 1]

    for before, after, terms in frames:
        chain = [nodes(before)] * (before > 0) + [nodes(after)]
        whole = [] if len(nodes(after)) == forward.n_nodes else [page_names]
        rows = ra.structure.LowerSets.of(training, chain + whole).terms(training).tolist()
        # The first term is the smallest that any chain keeps; here that of the shortest chain is an upper limit.
        assert terms[1:] == rows[len(chain) - 1][1:]
    fitting = [p[0] for p in ra.solvers.formula_frontier(training) if p[1] <= options["budget"]]
    assert page.evaluate("steps.result.overhead") == min(fitting)


def test_frames_of_the_elimination_have_the_bags_of_the_package(opened):
    graph, options = example("elimination")
    page = opened("elimination")
    names = page.evaluate("steps.graph.names")
    bags = page.evaluate("steps.frames.at(-1).bags.map(members)")
    order = [graph.node_id(names[v]) for v in page.evaluate("steps.result.order")]
    elimination = elimination_of(ra.structure.UndirectedGraph.of(graph), order)
    best = ra.structure.eliminate(ra.structure.UndirectedGraph.of(graph), options["rule"])
    for i, bag in enumerate(bags):
        assert {names[v] for v in bag} == {graph.labels[v] for v in elimination.bag(i)}
    assert page.evaluate("steps.result.width") == elimination.width == best.width
    assert page.evaluate("steps.frames.filter(({ line }) => line === 'bag').length") == graph.n_nodes


def test_frames_of_the_recursion_have_the_bytes_of_the_simulator(opened):
    _, options = example("recursion")
    page = opened("recursion")
    plan = recursive_plan([1] * 15, options["k"], options["depth"], options["last"] == "yes")
    assert page.evaluate("steps.frames.at(-1).bytes") == plan.simulation.memory_trace.tolist()
    assert page.evaluate("Math.max(...steps.frames.map((frame) => frame.stack.length))") == options["depth"]


def test_frames_of_the_price_sweep_have_the_cuts_of_the_package(opened):
    graph, options = example("closure_cut")
    page = opened("closure_cut")
    names = page.evaluate("steps.graph.names")
    node = graph.node_id(options["node"])
    changes = page.evaluate(
        "steps.frames.filter(({ line }) => line === 'change' || line === 'cheapest')"
        ".map(({ cut, price }) => [price[0] / price[1], members(cut.live), members(cut.again)])"
    )
    ends = [price for price, *_ in changes[1:]] + [changes[-1][0] + 0.25]
    for (price, live, again), end in zip(changes, ends, strict=True):
        cut = closure_cut(graph, LowerBound(0, (node,), Prices((price + end) / 2)))
        assert [names[v] for v in live] == [graph.labels[x] for x in cut.kept]
        assert [names[v] for v in again] == [graph.labels[v] for v in cut.recomputed]
    proof = cuts_of(graph, None).proof(options["limit"], LowerBound(0, (node,), Prices(changes[-1][0])))
    assert page.evaluate("steps.result.overhead") == proof.amount - graph.needed_compute
    page.fill("#node", "best")
    page.click("button[type=submit]")
    bound = overhead_bound(graph, options["limit"])
    assert page.evaluate("steps.result.overhead") == bound.amount - graph.needed_compute


def test_frames_of_the_search_end_with_a_schedule_of_the_optimum(opened):
    graph, options = example("live_sets")
    page = opened("live_sets")
    names = page.evaluate("steps.graph.names")
    order = [graph.node_id(names[v]) for v in page.evaluate("steps.result.order")]
    run = ra.simulate(graph, order)
    assert run.peak_memory <= options["limit"]
    assert run.overhead == ra.solve(graph, options["limit"], solver="live_set_search").overhead
    taken = page.evaluate("steps.frames.filter(({ line }) => line === 'take').map(({ overhead }) => overhead)")
    assert taken == sorted(taken)


# ---------------------------------------------------------------- controls


@pytest.mark.parametrize("name", NAMES)
def test_buttons_slider_field_and_keys_step(opened, name):
    page = opened(name)
    last = page.evaluate("steps.frames.length") - 1
    statuses = {page.inner_text("[role=status]")}
    page.click("text=▶")
    assert page.evaluate("steps.step") == 1
    statuses.add(page.inner_text("[role=status]"))
    page.fill("#step", "3")
    assert (page.evaluate("steps.step"), page.input_value("#scrub")) == (3, "3")
    statuses.add(page.inner_text("[role=status]"))
    assert len(statuses) == 3
    page.focus("#scrub")
    for key, step in (("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("End", last)):
        page.keyboard.press(key)
        assert page.evaluate("steps.step") == step
    page.select_option("#speed", "30")
    page.fill("#step", str(max(0, last - 5)))
    page.focus("#scrub")
    page.keyboard.press(" ")
    sync_api.expect(page.locator("#play")).to_have_text("Play")
    assert page.evaluate("steps.step") == last


def test_the_address_keeps_the_step(opened):
    page = opened("recursion", at="#step=5")
    assert page.evaluate("steps.step") == 5
    page.click("text=▶")
    page.wait_for_url("**#step=6")


@pytest.mark.parametrize("name", NAMES)
def test_each_frame_of_each_example_has_one_current_line_and_a_sentence(opened, name):
    page = opened(name)
    for place in range(len(steps.PAGES[name]["examples"])):
        page.select_option("#example", str(place))
        assert page.inner_text("#fault") == ""
        for lines, sentence in page.evaluate(ALL_STEPS):
            assert lines == 1
            assert sentence.endswith(".")
            assert not any(word in sentence for word in ("undefined", "NaN", "null", "[object"))


FAULTS = [
    ("", "The graph is empty; write edges such as a>b b>c."),
    ("a>b>a", "The edges a>b>a are a cycle; no node can run first."),
    ("a>a", "The edges a>a are a cycle; no node can run first."),
    ("a-b", "“a-b” is not a node name; use up to eight letters, digits or underscores."),
    ("a>b a=x", "“a=x” is neither an edge such as a>b nor a node such as a=4/2, with 4 bytes and cost 2."),
    ("a>b a=1 a=2", "The node a has two sizes; give one."),
    ("{chain}", "The graph has {more} nodes; this page takes up to {nodes}."),
    ("<b>bold</b>", "“<b” is not a node name; use up to eight letters, digits or underscores."),
]


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_one_sentence_and_the_steps_stay(opened, name):
    page, nodes = opened(name), steps.PAGES[name]["nodes"]
    before = page.evaluate("steps.frames.length")
    for text, fault in FAULTS:
        page.fill("#graph", text.format(chain=">".join(f"n{v}" for v in range(nodes + 1))))
        page.click("button[type=submit]")
        assert page.inner_text("[role=alert]") == fault.format(more=nodes + 1, nodes=nodes)
        assert page.evaluate("steps.frames.length") == before


@pytest.mark.parametrize(
    ("name", "field", "value", "fault"),
    [
        ("lower_sets", "budget", "-1", "budget B in bytes is “-1”; give a whole number, 0 or more."),
        ("recursion", "k", "0", "There must be at least one cut in a part; give a k from 1 on."),
        ("closure_cut", "node", "nobody", "No node is named “nobody”; v is a node of the graph, or best."),
        ("live_sets", "limit", "", "limit in bytes is “”; give a whole number, 0 or more."),
    ],
)
def test_a_bad_option_is_one_sentence(opened, name, field, value, fault):
    page = opened(name)
    page.fill(f"#{field}", value)
    page.click("button[type=submit]")
    assert page.inner_text("[role=alert]") == fault


def test_too_much_work_is_one_sentence(opened):
    page = opened("lower_sets")
    page.fill("#graph", "a b c d e f g h")
    page.click("button[type=submit]")
    assert page.inner_text("[role=alert]") == "The graph has more than 64 lower sets; this page takes up to 64."
    page = opened("recursion")
    page.fill("#graph", "a>b>c a>c")
    page.click("button[type=submit]")
    assert "does not read exactly the node before it" in page.inner_text("[role=alert]")


def test_an_own_graph_is_stepped_through(opened):
    page = opened("live_sets")
    page.fill("#graph", "x>y y>z x>z x=2 y=3 z=1")
    page.fill("#limit", "6")
    page.click("button[type=submit]")
    assert page.evaluate("steps.result.overhead") == 0
    assert page.locator("svg.picture >> nth=0").locator("text.name").all_text_contents() == ["x", "y", "z"]


# ---------------------------------------------------------------- looks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")])
def test_nothing_is_wider_than_the_screen_and_axe_finds_nothing_serious(opened, axe, name, width, scheme):
    page = opened(name, width, scheme, at="#step=12")
    assert page.evaluate("steps.step") == 12
    assert serious(page, axe) == []
    for step in (0, page.evaluate("steps.frames.length") - 1):
        page.evaluate(f"steps.go({step})")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
