"""How deep, how large, on the command line: every answer is simulated again, what is next does not fit."""

import pytest

from remat_algos.cli.commands import fit as command
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.questions import compare as room
from remat_algos.search.auto import default_solvers
from remat_algos.search.solve import answered, solve
from remat_algos.text.amounts import parse_bytes
from remat_algos.zoo.registry import build, get_family
from tests.command_line import complains

pytestmark = pytest.mark.usefixtures("short_searches")
SOLVERS = [*(solver.name for solver in default_solvers()), "auto"]
SMALL = "vgg11?image=32&width=8"
ASK = ("fit", "--model", SMALL, "--vary", "batch", "--memory", "20MB")
FEW = ("--solver", "no_remat,chen_sqrt")


def training(model, **options):
    graph = build(model, **options).graph
    return graph if graph.is_training else differentiate(graph)


def fits(graph, budget, solver):
    try:
        plan = solve(graph, budget, solver=solver)
    except BudgetError:
        return False
    return plan.peak_memory + graph.resident_memory <= parse_bytes(budget.device)


@pytest.mark.parametrize("overhead", [None, "10%"])
def test_the_largest_batch_fits_and_the_next_does_not(remat, overhead):
    words = [] if overhead is None else ["--overhead", overhead]
    said = remat(*ASK, *words, *FEW, "--json")
    assert said.fine
    budget = Budget(device="20MB", overhead=overhead)
    for entry in said.record["solvers"]:
        graphs = [training("vgg11", image=32, width=8, batch=batch) for batch in (entry["value"], entry["too_much"])]
        assert entry["too_much"] == entry["value"] + 1
        assert [fits(graph, budget, entry["solver"]) for graph in graphs] == [True, False]
        assert entry["graph_hash"] == graphs[0].source_hash
        assert entry["peak_memory"] + entry["resident_memory"] <= 20_000_000
        assert overhead is None or entry["overhead_share"] <= 0.1


def rows_of(said):
    """The words of each row below the headings, and what stands below the table."""
    lines = said.lines[1 + next(i for i, line in enumerate(said.lines) if line.startswith("solver ")) :]
    n_rows = next((i for i, line in enumerate(lines) if line.split()[0] not in SOLVERS and line[0] != "("), len(lines))
    rows = list[list[str]]()
    for words in map(str.split, lines[:n_rows]):
        if words[0].startswith("("):  # the method of the row above, which has no room for it
            rows[-1][1:1] = words
        else:
            rows.append(words)
    return rows, " ".join(" ".join(lines[n_rows:]).split())


def test_depth_takes_the_values_that_the_family_allows(remat):
    said = remat("fit", "--model", "vgg?image=32&width=8&batch=4", "--vary", "depth", "--memory", "6MB", *FEW, "--json")
    depths = list(get_family("vgg").grows["depth"])
    for entry in said.record["solvers"]:
        assert set(map(int, entry["tried"])) <= set(depths)
        assert depths.index(entry["too_much"]) == depths.index(entry["value"]) + 1


def test_the_text_has_a_row_for_every_solver(remat):
    words = (*ASK, "--values", "100,150,200,300,400,600")
    said, record = remat(*words), remat(*words, "--json").record
    assert said.fine
    assert said.flat.startswith(f"model:{SMALL}: batch varies; gradients of parameters are not counted")
    assert "budget: device 20MB" in said.lines
    rows = {row[0]: row for row in rows_of(said)[0]}
    assert list(rows) == SOLVERS == [entry["solver"] for entry in record["solvers"]]
    for entry in record["solvers"]:
        row = rows[entry["solver"]]
        assert row[-1] == str(entry["too_much"])
        method = [] if entry["method"] == entry["solver"] else [f"({entry['method']})"]
        assert row[1:].index(str(entry["value"])) == len(method)
        assert row[1 : 1 + len(method)] == method
    assert rows["no_remat"][-3:-1] == ["0.0", "%"]
    largest = {entry["solver"]: entry["value"] for entry in record["solvers"]}
    assert all(largest["no_remat"] <= value <= largest["auto"] for value in largest.values())


def test_gradients_of_parameters_count_where_the_model_says_so(remat):
    plain, counted = (
        remat("fit", "--model", f"{SMALL}{more}", *ASK[3:], *FEW) for more in ("", "&parameter_gradients=true")
    )
    assert "gradients of parameters are counted" in counted.flat
    largest = [int(rows_of(said)[0][0][1]) for said in (plain, counted)]
    assert largest[1] < largest[0]


def test_the_model_may_be_written_as_a_graph_is(remat):
    said, named = (remat("fit", "--model", model, *ASK[3:], *FEW) for model in (SMALL, f"model:{SMALL}"))
    assert said.out == named.out


def test_only_the_values_that_are_given_are_tried(remat):
    said = remat(*ASK, *FEW, "--values", "64,16,32,16", "--json")
    assert all(set(entry["tried"]) <= {"16", "32", "64"} for entry in said.record["solvers"])


def test_the_cap_is_said(remat):
    said = remat(*ASK, *FEW, "--most", "3")
    assert all("3 or more" in " ".join(row) for row in rows_of(said)[0])
    assert all(entry["at_least"] for entry in remat(*ASK, *FEW, "--most", "3", "--json").record["solvers"])


def test_what_cannot_be_built_is_said(remat):
    said = remat("fit", "--model", "gpt2_small?batch=1&depth=1", "--vary", "sequence", "--memory", "20GiB", *FEW)
    assert (said.code, [row[-1] for row in rows_of(said)[0]]) == (0, ["1025", "1025"])
    assert rows_of(said)[1].startswith("1025 cannot be built: sequence=1025: gpt2_small: a sequence of 1025 words")


def test_nothing_fits_is_infeasible_and_says_why(remat):
    said = remat("fit", "--model", SMALL, "--vary", "batch", "--memory", "2MB", *FEW)
    assert said.code == 3
    assert [row[1] for row in rows_of(said)[0]] == ["none", "none"]
    assert rows_of(said)[1].startswith("no_remat, chen_sqrt: ")
    assert "less than the residents" in rows_of(said)[1]


def test_an_interrupt_leaves_what_was_found(remat, monkeypatch):
    def interrupted(request, clock):
        if request.name == "chen_sqrt":
            raise KeyboardInterrupt
        return answered(request, clock)

    monkeypatch.setattr(room, "answered", interrupted)
    said = remat(*ASK, *FEW)
    assert (said.code, said.err) == (130, "")
    assert said.lines[-1] == "interrupted; these are the largest values found"
    assert [row[0] for row in rows_of(said)[0]] == ["no_remat", "chen_sqrt"]
    assert int(rows_of(said)[0][0][1]) > 0
    record = remat(*ASK, *FEW, "--json").record
    assert not record["complete"]


def test_help_says_what_is_not_counted(remat):
    said = " ".join(remat("fit", "--help").out.split())
    assert "gradients of parameters are counted only with parameter_gradients=true or an optimizer" in said
    assert f"(default: {command.MAX_VALUE}, or the largest of --values)" in said


def test_a_value_that_cannot_be_built_is_named(remat):
    asked = ("fit", "--model", "vgg", "--vary")
    assert complains(remat(*asked, "batch", "--memory", "1GB", "--values", "0", "--json"), "batch=0")
    assert complains(remat(*asked, "image", "--memory", "1GB", "--values", "1", "--json"), "image=1", "--values")
