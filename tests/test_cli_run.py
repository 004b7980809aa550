"""`remat run`: a plan run for real; what it says, draws and ends with."""

import json
import sys
from dataclasses import replace

import pytest

from remat_algos.context import Stop
from remat_algos.executor import validate as validate_module
from remat_algos.executor.operators import SyntheticOperators
from remat_algos.plan.record import SearchReport
from remat_algos.search.solve import solve
from tests.command_line import complains

pytestmark = pytest.mark.usefixtures("short_searches", "folder")

ASKED = {
    *("predicted_peak", "measured_peak", "pool_total", "device_peak", "residual"),
    *("first_difference", "mismatches", "time_predicted", "time_measured", "runs"),
}
KEYS = ASKED | {
    *("graph_hash", "backend", "device", "packed", "steps", "holds", "exact_peak", "measured_exact_peak"),
    *("pool_predicted", "pool_inside", "first_difference_node", "overhead_predicted", "overhead_measured"),
    *("solver", "method", "limit", "shrink"),
}


def told(said):
    """What stands behind each name, from the line on that names the backend."""
    lines = said.lines[next(i for i, line in enumerate(said.lines) if line.startswith("backend")) :]
    margin = next(i for i in range(len("predicted"), 80) if lines[1][i] != " ")
    found, name = {}, ""
    for line in lines:
        name = line[:margin].strip() or name
        found[name] = f"{found[name]} {line[margin:]}" if name in found else line[margin:]
    return found


# ---------------------------------------------------------------- what holds


@pytest.mark.parametrize("words", [(), ("--arena",), ("--solver", "chen_sqrt"), ("--repeats", "0")])
def test_json_has_exactly_these_names(remat, words):
    said = remat("run", "chain.nodes.csv", "--budget", "90%", "--json", *words)
    record = said.record
    assert (said.code, said.err, set(record)) == (0, "", KEYS)
    assert record["predicted_peak"] == record["measured_peak"] > 0
    assert (record["mismatches"], record["first_difference"], record["holds"]) == (0, None, True)
    assert record["residual"] == [0] * record["steps"]
    assert sum(record["runs"]) == record["steps"]
    assert (record["backend"], record["device_peak"], record["packed"]) == ("numpy", None, "--arena" in words)
    assert record["exact_peak"] == record["measured_exact_peak"] <= record["limit"]
    assert (record["time_measured"] is None) == ("0" in words)


def test_the_text_says_plan_run_and_verdict(remat):
    said = remat("run", "chain.nodes.csv", "--budget", "90%")
    assert said.code == 0
    assert said.lines[0].startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added")
    assert said.lines[2].startswith("best plan: ")
    found = told(said)
    assert list(found) == [
        *("backend", "predicted", "measured", "exact", "reserved", "values", "runs", "time", "verdict"),
    ]
    assert found["backend"].startswith("numpy, ")
    assert "equal at each of" in found["measured"]
    assert found["values"].endswith("bit-identical to the original")
    assert found["verdict"] == "passed: memory, values and runs match the prediction"


def test_a_plan_or_an_order_is_run_as_it_is(remat, folder):
    solved = remat("solve", "chain.nodes.csv", "--budget", "80%", "-o", "plan.json", "--json").record
    record = remat("run", "chain.nodes.csv", "--plan", "plan.json", "--json").record
    assert record["exact_peak"] == solved["peak_memory"]
    assert (record["solver"], record["limit"]) == (solved["solver"], solved["limit"])
    assert "6 gradient nodes added (as in the plan)" in remat("run", "chain.nodes.csv", "--plan", "plan.json").lines[0]
    (folder / "order.txt").write_text("a b c d e loss")
    record = remat("run", "chain.nodes.csv", "--inference", "--plan", "order.txt", "--json").record
    assert (record["steps"], record["solver"], record["limit"], record["exact_peak"]) == (6, None, None, 8)


def test_sizes_can_be_divided(remat):
    whole = remat("solve", "chain.nodes.csv", "--budget", "80%", "-o", "plan.json", "--json").record["peak_memory"]
    for plan in (("--budget", "90%"), ("--plan", "plan.json")):
        record = remat("run", "chain.nodes.csv", *plan, "--shrink", "2", "--json").record
        assert (record["shrink"], record["holds"]) == (2, True)
        assert whole // 2 <= record["exact_peak"] <= whole // 2 + 3  # the loss has a byte, which stays one
    said = remat("run", "chain.nodes.csv", "--shrink", "2", "--repeats", "0")
    assert "is); all sizes divided by 2 " in said.flat


def test_residents_are_there_too(remat):
    assert remat("run", "resident.nodes.csv", "--budget", "100%", "--json").record["holds"]


def test_the_curves_are_drawn(remat, folder):
    said = remat("run", "chain.nodes.csv", "--budget", "90%", "--plot", "both.svg")
    assert said.lines[-1] == "drawn        both.svg"
    assert (folder / "both.svg").read_bytes().startswith(b"<?xml")
    said = remat("run", "chain.nodes.csv", "--budget", "90%", "--plot", "-")
    assert said.lines[-1] == "█ as predicted"


# ---------------------------------------------------------------- exit codes


class Random(SyntheticOperators):
    """Never makes the same twice."""

    times = 0

    def run(self, node, reads, residents, values, workspace):
        super().run(node, reads, residents, values, workspace)
        self.times += 1
        for value in values:
            value[0] = self.times


def test_a_run_that_is_not_what_was_predicted_ends_with_1(remat, monkeypatch):
    monkeypatch.setattr(validate_module, "SyntheticOperators", Random)
    said = remat("run", "chain.nodes.csv", "--budget", "90%", "--json")
    assert (said.code, said.record["holds"]) == (1, False)
    assert isinstance(said.record["mismatches"], str)
    said = remat("run", "chain.nodes.csv", "--budget", "90%")
    assert (said.code, told(said)["verdict"]) == (1, "failed: memory, values or runs differ from the prediction")
    assert "computed another value at step" in told(said)["values"]


def test_a_false_claim_ends_with_1(remat, folder):
    remat("solve", "chain.nodes.csv", "--budget", "80%", "-o", "plan.json")
    record = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(record | {"peak_memory": 1}))
    complains(remat("run", "chain.nodes.csv", "--plan", "plan.json"), "claims peak_memory 1", code=1)


def test_without_a_plan_within_the_budget_it_ends_with_3(remat):
    said = remat("run", "chain.nodes.csv", "--budget", "3", "--json")
    assert (said.code, said.record["feasible"]) == (3, False)


def test_without_a_gpu_it_says_what_is_missing(remat, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    complains(remat("run", "chain.nodes.csv", "--backend", "cupy"), "backend cupy", "CuPy", "install")


def test_who_stops_the_search_gets_no_run(remat, monkeypatch):
    def stopped(*arguments, **options):
        plan = solve(*arguments, **options)
        return replace(plan, report=SearchReport(stop=Stop.INTERRUPTED))

    monkeypatch.setattr("remat_algos.cli.commands.run.solve", stopped)
    monkeypatch.setattr(validate_module, "execute", None)  # nothing is to run
    said = remat("run", "chain.nodes.csv", "--budget", "90%", "--json")
    assert (said.code, said.out) == (130, "")
    assert said.err == "remat: interrupted while solving, so nothing was run; --time-limit makes solvers stop sooner\n"
