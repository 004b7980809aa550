"""`--allocator` of solve, simulate and show, and what verify says of it."""

import json
import shutil
from dataclasses import replace

import pytest

from remat_algos.allocate.allocators import ALLOCATORS, Reservation, get_allocator, list_allocators
from remat_algos.allocate.pools import cuda_caching, cupy_pool
from remat_algos.cli.main import main
from remat_algos.executor import validate
from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.plan import Plan
from remat_algos.schedule.emission import baseline
from tests.command_line import with_budget

pytestmark = pytest.mark.usefixtures("short_searches")

# sizes that differ a little: chunks are split, and an interval is left open
NODES = "name,memory,compute\n" + "".join(f"n{i},{size},1\n" for i, size in enumerate([3000, 700, 2000, 1100, 600, 4]))
EDGES = "src,dst\n" + "".join(f"n{i},n{i + 1}\n" for i in range(5)) + "n0,n3\n"
KEYS = {"allocator", "used_memory", "least_reserved_memory", "reserved_memory", "ties", "fragmentation"}
MODELS = {"cupy_pool": cupy_pool, "cuda_caching": cuda_caching}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A graph, and a plan for what CuPy's pool reserves."""
    place = tmp_path_factory.mktemp("made")
    (place / "net.nodes.csv").write_text(NODES)
    (place / "net.edges.csv").write_text(EDGES)
    words = ["solve", str(place / "net.nodes.csv"), "--budget", "200%", "--allocator", "cupy_pool"]
    assert main(with_budget([*words, "-o", str(place / "plan.json")])) == 0
    return place


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A working folder with these files."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def graph(folder):
    return differentiate(read_graph("net.nodes.csv"))


def test_solve_and_verify_tell_what_is_reserved(remat, folder, graph):
    record = json.loads((folder / "plan.json").read_text())
    use = cupy_pool(Plan.load("plan.json", graph).simulation)
    assert (record["least_reserved_memory"], record["reserved_memory"]) == use.interval
    assert record["used_memory"] == use.peak_used
    assert record["reserved_memory"] <= record["limit"]
    said = remat("solve", "net.nodes.csv", "--budget", "200%", "--allocator", "cupy_pool")
    assert any(line.startswith("reserved   ") and "of what cupy_pool reserves without" in line for line in said.lines)
    assert "of what cupy_pool reserves without" in remat("verify", "net.nodes.csv", "plan.json").flat
    assert remat("verify", "net.nodes.csv", "plan.json", "--json").record.keys() >= KEYS
    (folder / "false.json").write_text(json.dumps({**record, "used_memory": 512}))
    said = remat("verify", "net.nodes.csv", "false.json")
    assert (said.code, "used_memory" in said.err) == (1, True)


def test_a_budget_may_be_too_little_for_the_allocator_alone(remat, folder, graph):
    asked = ("solve", "net.nodes.csv", "--budget", baseline(graph).peak_memory, "--solver", "no_remat")
    assert remat(*asked).code == 0
    said = remat(*asked, "--allocator", "cuda_caching")
    assert said.code == 3
    assert "no schedule for which cuda_caching reserves at most" in said.err
    assert remat(*asked, "--allocator", "cuda_caching", "--json").record["feasible"] is False


@pytest.mark.parametrize("allocator", sorted(MODELS))
def test_a_share_is_of_what_the_allocator_reserves_without_rematerialization(remat, folder, allocator):
    (folder / "chain.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(6)))
    whole = remat("show", "chain.txt", "--allocator", allocator, "--json").record["reserved_memory"]
    asked = ("chain.txt", "--budget", "100%", "--allocator", allocator)
    plan = remat("solve", *asked, "--json").record
    assert (plan["overhead"], plan["limit"]) == (0, whole)
    assert remat("simulate", *asked, "--json").record["limit"] == whole
    assert f"100.0 % of what {allocator} reserves without rematerialization" in remat("simulate", *asked).out
    compared = remat("compare", *asked, "--solver", "no_remat", "--json").record
    assert compared["reserved_without_rematerialization"] == whole
    assert "100.0 %" in remat("compare", *asked, "--solver", "no_remat").out


def test_the_arena_has_addresses(remat, folder, graph):
    asked = ("solve", "net.nodes.csv", "--budget", "100%", "--alignment", "64", "--allocator", "arena")
    record = remat(*asked, "-o", "arena.json", "--json").record
    assert record["alignment"] == 64
    assert record["packed_memory"] == record["reserved_memory"] <= record["limit"]
    assert all(offset % 64 == 0 for offset in record["offsets"])
    assert Plan.load("arena.json", graph).reservation.allocation.offset.tolist() == record["offsets"]


def test_a_plan_with_addresses_is_run_at_them(remat, folder, graph, monkeypatch):
    remat("solve", "net.nodes.csv", "--budget", "100%", "--alignment", "64", "--allocator", "arena", "-o", "arena.json")
    monkeypatch.setattr(validate, "pack", None)
    asked = ("run", "net.nodes.csv", "--plan", "arena.json", "--arena", "--repeats", "0", "--json")
    assert remat(*asked).record["holds"]


@pytest.mark.parametrize("allocator", sorted(MODELS))
def test_show_tells_of_the_run_without_rematerialization(remat, graph, allocator):
    use = MODELS[allocator](baseline(graph))
    record = remat("show", "net.nodes.csv", "--allocator", allocator, "--json").record
    assert [record[key] for key in ("used_memory", "least_reserved_memory", "reserved_memory")] == [
        use.peak_used,
        *use.interval,
    ]
    assert record["fragmentation"] == round(use.fragmentation, 6)
    said = remat("show", "net.nodes.csv", "--allocator", allocator)
    assert [line.split("  ")[0] for line in said.lines[-3:]] == ["used peak", "reserved peak", "fragmentation"]
    assert not KEYS & remat("show", "net.nodes.csv", "--json").record.keys()


def test_simulate_holds_the_budget_against_what_is_reserved(remat, graph):
    use = cupy_pool(Plan.load("plan.json", graph).simulation)
    asked = ("simulate", "net.nodes.csv", "plan.json", "--allocator", "cupy_pool")
    said = remat(*asked, "--budget", use.peak_reserved)
    assert (said.code, any(line.endswith(": it fits") for line in said.lines)) == (0, True)
    assert {"used peak", "reserved peak", "fragmentation"} <= {line.split("  ")[0] for line in said.lines}
    said = remat(*asked, "--budget", use.interval[0] - 1)
    assert (said.code, any("it does not fit" in line for line in said.lines)) == (3, True)
    assert remat(*asked[:-2], "--budget", use.interval[0] - 1).code == 0  # as it is simulated
    assert remat(*asked, "--json").record.keys() >= KEYS
    assert not KEYS & remat(*asked[:-2], "--json").record.keys()


def test_simulate_says_where_ties_decide(remat, folder, monkeypatch):
    def cupy_pool(simulation, clock):
        return Reservation("cupy_pool", 20_000, 1000, 10_000, 2)

    monkeypatch.setitem(ALLOCATORS, "cupy_pool", replace(get_allocator("cupy_pool"), function=cupy_pool))
    said = remat("simulate", "net.nodes.csv", "--allocator", "cupy_pool", "--budget", "15000")
    assert said.code == 3
    assert "it may fit, depending on ties" in said.flat
    assert "over the ways to break 2 ties" in said.flat


def test_an_arena_of_an_order_is_packed(remat, folder):
    record = remat("simulate", "net.nodes.csv", "plan.json", "--allocator", "arena", "--json").record
    assert record["used_memory"] == record["peak_memory"] <= record["reserved_memory"]


@pytest.mark.parametrize("command", ["solve", "compare", "simulate", "show"])
def test_help_lists_every_allocator(remat, command):
    said = remat(command, "--help")
    assert said.code == 0
    for allocator in list_allocators():
        assert f"{allocator.name} {allocator.summary}" in " ".join(said.out.split())
