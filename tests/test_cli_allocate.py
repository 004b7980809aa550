"""`remat allocate`: addresses for a schedule or for bare buffers; `--allocator arena` of solve, compare and verify."""

import csv
import json
import os
import shutil
from dataclasses import replace

import pytest

from remat_algos.allocate.offsets import pack
from remat_algos.context import Stop
from remat_algos.formats.buffer_tables import read_buffers
from tests.command_line import chain_plan, lay_tables

pytestmark = pytest.mark.usefixtures("short_searches")

SIZES = {"peak", "max_live", "bound", "capacity", "alignment", "buffers", "fixed"}
BARE_KEYS = SIZES | {"proven", "seconds", "fits", "method", "interrupted"}
ARENAS_KEYS = BARE_KEYS - {"bound", "proven"} | {"arenas", "addresses"}
GRAPH_KEYS = {"graph_hash", "workspaces", "in_place", "in_place_pairs", "judged_peak", "resident_memory"}
METHODS = ("offsets", "sharing", "colouring", "separate")
# 100, 5, 7, 100: the worst step holds 107
BUFFERS = "id,lower,upper,size\na,0,2,100\nb,1,3,5\nc,2,4,7\nd,3,4,100\n"
# a ReLU that may write over the convolution, and a second convolution
RELU = "name,memory,compute,op\nconv,8,9,Convolution\nrelu,8,1,ReLU\nlast,4,9,Convolution\n"
RELU_EDGES = "src,dst\nconv,relu\nrelu,last\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Graphs, buffers, and a plan for the chain."""
    place = tmp_path_factory.mktemp("made")
    lay_tables(place, relu=(RELU, RELU_EDGES))
    (place / "buffers.csv").write_text(BUFFERS)
    (place / "plan.json").write_text(chain_plan())
    return place


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A working folder with these files."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(file):
    """The rows of a table, numbers as such."""
    with open(file, newline="") as text:
        return [
            {name: cell if name == "id" else int(cell) for name, cell in row.items()} for row in csv.DictReader(text)
        ]


def lies_apart(table, size):
    """Whether, at every step, no byte of an arena is given twice."""
    for step in range(max(row["upper"] for row in table)):
        taken = set()
        for row in table:
            if row["lower"] <= step < row["upper"]:
                lies = set(range(row["offset"], row["offset"] + row["size"]))
                if taken & lies or not lies <= set(range(size)):
                    return False
                taken |= lies
    return True


# ---------------------------------------------------------------- a schedule


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("plan", [[], ["plan.json"]], ids=["every node once", "a plan"])
def test_every_method_gives_addresses_that_lie_apart(remat, folder, method, plan):
    said = remat("allocate", "chain.nodes.csv", *plan, "--method", method, "-o", "out.csv", "--json")
    record, table = said.record, rows("out.csv")
    assert said.fine
    assert set(record) == BARE_KEYS | GRAPH_KEYS
    assert lies_apart(table, record["peak"])
    assert record["judged_peak"] == record["max_live"] <= record["bound"] <= record["peak"]
    assert record["proven"] == (record["peak"] == record["bound"])
    assert len(table) == record["buffers"]


def test_without_a_plan_every_node_runs_once(remat, folder):
    alone = remat("allocate", "chain.nodes.csv", "--json").record
    planned = remat("allocate", "chain.nodes.csv", "plan.json", "--json").record
    assert alone["judged_peak"] == remat("simulate", "chain.nodes.csv", "--json").record["peak_memory"] == 28
    assert planned["judged_peak"] == json.loads((folder / "plan.json").read_text())["peak_memory"]
    assert (alone["buffers"], planned["buffers"] > 12) == (12, True)


def test_ids_name_the_value_and_the_step_that_makes_it(remat, folder):
    remat("allocate", "chain.nodes.csv", "-o", "out.csv")
    assert [row["id"] for row in rows("out.csv")][:6] == ["a@0", "b@1", "c@2", "d@3", "e@4", "loss@5"]
    (folder / "work.nodes.csv").write_text("name,memory,compute,workspace\na,4,1,3\nb,4,1,0\n")
    (folder / "work.edges.csv").write_text("src,dst\na,b\n")
    remat("allocate", "work.nodes.csv", "--inference", "-o", "out.csv")
    assert [row["id"] for row in rows("out.csv")] == ["a@0", "b@1", "workspace(a)@0"]


def test_what_is_written_can_be_read_as_bare_buffers(remat, folder):
    first = remat("allocate", "chain.nodes.csv", "plan.json", "-o", "out.csv", "--json").record
    again = remat("allocate", "--buffers", "out.csv", "--json").record
    assert (again["max_live"], again["peak"], again["buffers"]) == (first["max_live"], first["peak"], first["buffers"])


def test_a_list_of_names_is_an_order_too(remat, folder):
    (folder / "order.txt").write_text("a b c d e loss")
    assert remat("allocate", "chain.nodes.csv", "order.txt", "--inference").code == 0


def test_the_text_says_which_number_is_which(remat, folder):
    said = remat("allocate", "chain.nodes.csv", "plan.json", "--alignment", "8", "--capacity", "48", "-o", "out.csv")
    told = dict(line.split("  ", 1) for line in said.lines[1:])
    assert said.lines[0].startswith("chain.nodes.csv: 6 nodes; 6 gradient nodes added (as in the plan)")
    assert list(told) == ["arena", "max live", "simulated", "capacity", "method", "buffers", "seconds", "written"]
    assert told["arena"].strip().endswith("of max live (the minimum)")
    assert told["simulated"].strip().endswith(": the same")
    assert told["capacity"].strip() == "48 B: it fits"
    assert told["method"].strip().endswith("; addresses are multiples of 8")
    assert told["buffers"].strip().endswith(", 0 workspaces among them")


def test_the_factor_is_that_of_all_commands(remat, folder):
    hashes = [
        remat("allocate", "chain.nodes.csv", *words, "--json").record["graph_hash"]
        for words in ([], ["--factor", "2"], ["--factor", "3"])
    ]
    assert hashes[0] == hashes[1] == remat("simulate", "chain.nodes.csv", "--json").record["graph_hash"]
    assert remat("allocate", "chain.nodes.csv", "--factor", "3").code == 0


def test_residents_stand_beside_the_arena(remat, folder):
    said = remat("allocate", "resident.nodes.csv")
    assert any(line.startswith("resident") and "107 B; together with the arena" in line for line in said.lines)
    assert remat("allocate", "resident.nodes.csv", "--json").record["resident_memory"] == 107


@pytest.mark.parametrize("method", METHODS)
def test_addresses_are_multiples_of_the_alignment(remat, folder, method):
    words = ("--method", method, "--alignment", "1KiB", "-o", "out.csv", "--json")
    record = remat("allocate", "chain.nodes.csv", *words).record
    assert record["alignment"] == 1024
    assert all(row["offset"] % 1024 == 0 for row in rows("out.csv"))
    assert record["peak"] >= record["bound"] >= 7 * 1024


def test_the_match_range_is_searched_or_given(remat, folder):
    asked = ("allocate", "--buffers", "buffers.csv", "--method", "sharing", "--json")
    sizes = {given: remat(*asked, "--match-range", given).record["peak"] for given in (0, 1, 16)}
    assert sizes == {0: 212, 1: 112, 16: 205}
    assert remat(*asked).record["peak"] == 112


# ---------------------------------------------------------------- in place


def test_in_place_a_dying_input_is_written_over(remat, folder):
    asked = ("allocate", "relu.nodes.csv", "--inference", "--json")
    apart, over = remat(*asked).record, remat(*asked, "--in-place", "-o", "out.csv").record
    assert (apart["in_place"], apart["in_place_pairs"], apart["max_live"]) == (False, 0, 16)
    assert (over["in_place"], over["in_place_pairs"], over["max_live"], over["peak"]) == (True, 1, 12, 12)
    assert over["judged_peak"] == apart["judged_peak"] == 16
    table = rows("out.csv")
    assert lies_apart(table, 12)  # the first of a pair ends where the second begins
    assert table[0]["offset"] == table[1]["offset"]
    said = remat(*asked[:-1], "--in-place")
    assert any(line.startswith("in place") and line.endswith("1 pair") for line in said.lines)
    assert any(line.endswith("an overwritten input and its output count once") for line in said.lines)
    assert any(line.endswith("an overwritten input and its output both count") for line in said.lines)


def test_a_table_extends_what_works_in_place(remat, folder):
    (folder / "table.csv").write_text("op,read\nReLU,none\n")
    record = remat("allocate", "relu.nodes.csv", "--inference", "--in-place-table", "table.csv", "--json").record
    assert (record["in_place"], record["in_place_pairs"]) == (True, 0)


# ---------------------------------------------------------------- bare buffers


@pytest.mark.parametrize("method", METHODS)
def test_bare_buffers_get_offsets(remat, folder, method):
    said = remat("allocate", "--buffers", "buffers.csv", "--method", method, "-o", "out.csv", "--json")
    record, table = said.record, rows("out.csv")
    assert set(record) == BARE_KEYS
    assert [(row["id"], row["lower"], row["upper"], row["size"]) for row in table] == [
        *(("a", 0, 2, 100), ("b", 1, 3, 5), ("c", 2, 4, 7), ("d", 3, 4, 100))
    ]
    assert lies_apart(table, record["peak"])
    assert record["max_live"] == read_buffers("out.csv").max_live == 107


def test_bare_buffers_in_text(remat, folder):
    said = remat("allocate", "--buffers", "buffers.csv")
    assert said.lines[0] == "buffers.csv: 4 buffers"
    assert said.lines[1].split("  ")[0] == "arena"
    assert "107 B, 1.000 of max live (the minimum)" in said.lines[1]


@pytest.mark.parametrize(
    ("capacity", "fits"), [("107", True), ("107B", True), ("1MiB", True), ("106", False), ("0", False)]
)
def test_a_capacity_is_kept_or_the_exit_code_is_3(remat, folder, capacity, fits):
    said = remat("allocate", "--buffers", "buffers.csv", "--capacity", capacity, "-o", "out.csv", "--json")
    assert (said.code, said.record["fits"]) == (0 if fits else 3, fits)
    assert len(rows("out.csv")) == 4
    text = remat("allocate", "--buffers", "buffers.csv", "--capacity", capacity)
    assert text.code == said.code
    assert any(line.endswith(": it fits" if fits else ": it does not fit, and cannot") for line in text.lines)


def test_what_may_fit_and_was_not_found_is_told_from_what_cannot(remat, folder):
    said = remat("allocate", "--buffers", "buffers.csv", "--capacity", "110", "--method", "separate")
    assert said.code == 3
    assert any(line.endswith(": it does not fit") for line in said.lines)


def test_no_buffers_need_no_bytes(remat, folder):
    (folder / "none.csv").write_text("id,lower,upper,size\nx,0,1,0\n")
    for method in METHODS:
        record = remat("allocate", "--buffers", "none.csv", "--method", method, "--json").record
        assert (record["peak"], record["max_live"], record["proven"]) == (0, 0, True)


# ---------------------------------------------------------------- fixed offsets, several arenas

FIXED = "id,lower,upper,size,offset\na,0,4,4,8\nb,0,2,4,\nc,2,6,4,\nd,3,6,4,0\n"
# 140 KiB at the worst step
TWO = (
    "id,lower,upper,size\nt0,0,2,98304\nt1,1,3,45056\nt2,2,4,71680\nt3,3,5,65536\nt4,4,6,20480\n"
    "t5,5,7,12288\nt6,6,8,4096\n"
)
CAPACITIES = ("--capacity", "96KiB", "--capacity", "64KiB")


@pytest.fixture
def tables(folder):
    (folder / "fixed.csv").write_text(FIXED)
    (folder / "two.csv").write_text(TWO)
    return folder


def test_fixed_offsets_are_kept_counted_and_written(remat, tables):
    said = remat("allocate", "--buffers", "fixed.csv", "-o", "out.csv")
    assert said.lines[0] == "fixed.csv: 4 buffers, 2 at fixed offsets"
    table = rows("out.csv")
    assert [row["offset"] for row in table] == [8, 0, 4, 0]
    assert lies_apart(table, 12)
    assert remat("allocate", "--buffers", "fixed.csv", "--json").record["fixed"] == 2


def test_a_result_is_read_back_as_it_was_and_says_so(remat, tables):
    first = remat("allocate", "--buffers", "fixed.csv", "-o", "out.csv", "--json").record
    said = remat("allocate", "--buffers", "out.csv", "-o", "again.csv")
    assert "all at fixed offsets (remove the column offset to pack them again)" in " ".join(said.out.split())
    assert (tables / "again.csv").read_text() == (tables / "out.csv").read_text()
    assert remat("allocate", "--buffers", "out.csv", "--json").record["peak"] == first["peak"]


def test_two_capacities_split_the_buffers(remat, tables):
    said = remat("allocate", "--buffers", "two.csv", *CAPACITIES, "-o", "out.csv")
    assert said.code == 0
    assert [line.split("  ")[0] for line in said.lines[1:4]] == ["arena 0", "arena 1", "max live"]
    assert "96 KiB (98,304 bytes) of 96 KiB, 5 buffers" in said.lines[1]
    start = said.lines.index("buffer  arena  offset  bytes")
    printed = [line.split() for line in said.lines[start + 1 : start + 8]]
    table = rows("out.csv")
    assert printed == [[row["id"], *(str(row[key]) for key in ("arena", "offset", "size"))] for row in table]
    for arena, capacity in enumerate((98304, 65536)):
        assert lies_apart([row for row in table if row["arena"] == arena], capacity)


def test_two_capacities_in_json(remat, tables):
    record = remat("allocate", "--buffers", "two.csv", *CAPACITIES, "--json").record
    assert set(record) == ARENAS_KEYS
    assert (record["fits"], record["capacity"]) == (True, [98304, 65536])
    assert [arena["capacity"] for arena in record["arenas"]] == [98304, 65536]
    assert sum(arena["peak"] for arena in record["arenas"]) == record["peak"]
    assert [(each["id"], each["arena"]) for each in record["addresses"][:2]] == [("t0", 0), ("t1", 1)]
    of_graph = remat("allocate", "chain.nodes.csv", "--capacity", "20", "--capacity", "20", "--json").record
    assert set(of_graph) == ARENAS_KEYS | GRAPH_KEYS


@pytest.mark.parametrize(
    ("capacities", "said", "forced_by"),
    [
        (("90KiB", "90KiB"), "buffer t0 of 98,304 bytes is larger than every arena", ["t0"]),
        (("100KiB", "30KiB"), "at step 1 the buffers need 143,360 bytes", ["t0", "t1"]),
        (("96KiB", "44KiB"), "at step 3 the buffers t2 (71,680), t3 (65,536) do not fit", ["t2", "t3"]),
    ],
)
def test_where_there_is_no_split_the_error_names_the_buffer(remat, tables, capacities, said, forced_by):
    words = [word for capacity in capacities for word in ("--capacity", capacity)]
    result = remat("allocate", "--buffers", "two.csv", *words, "-o", "out.csv")
    assert (result.code, result.err.count("\n")) == (3, 1)
    assert said in result.err
    assert not (tables / "out.csv").exists()
    as_json = remat("allocate", "--buffers", "two.csv", *words, "--json")
    record = json.loads(as_json.out)
    assert as_json.code == 3
    assert (record["fits"], record["proven"], record["forced_by"]) == (False, True, forced_by)
    assert record["reason"] == result.err.strip().removeprefix("remat: ")


def test_what_was_split_is_read_back_as_it_was(remat, tables):
    remat("allocate", "--buffers", "two.csv", *CAPACITIES, "-o", "out.csv")
    said = remat("allocate", "--buffers", "out.csv", *CAPACITIES, "-o", "again.csv")
    assert "(remove the columns offset and arena to pack them again)" in " ".join(said.out.split())
    assert (tables / "again.csv").read_text() == (tables / "out.csv").read_text()
    alone = remat("allocate", "--buffers", "out.csv")
    assert (alone.code, "belongs to arena 1" in alone.err, "--capacity more than once" in alone.err) == (2, True, True)


def test_several_arenas_are_drawn(remat, tables):
    drawn = remat("allocate", "--buffers", "two.csv", *CAPACITIES, "--plot", "-").out
    assert "arena 0: 96 KiB of 96 KiB; arena 1: 64 KiB of 64 KiB" in drawn
    assert " arena 1 │" in drawn


# ---------------------------------------------------------------- pictures


def test_pictures(remat, folder):
    said = remat("allocate", "chain.nodes.csv", "plan.json", "--plot", "out.svg")
    assert said.lines[-1] == "drawn        out.svg"
    assert (folder / "out.svg").read_text().startswith("<?xml")
    for words in (["chain.nodes.csv", "plan.json"], ["--buffers", "buffers.csv"]):
        drawn = remat("allocate", *words, "--plot", "-")
        assert "│" in drawn.out
        assert "of max live" in drawn.out


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["--buffers", "chain.nodes.csv"], "id"),
        (["chain.nodes.csv", "--in-place-table", "relu.edges.csv"], "`op` and `read`"),
    ],
)
def test_a_table_of_something_else_says_what_is_missing(remat, folder, words, missing):
    said = remat("allocate", *words)
    *notes, error = said.err.splitlines()
    assert (said.code, said.out) == (2, "")
    assert all(note.startswith("remat: note: ") for note in notes)  # what columns were ignored
    assert words[-1] in error
    assert missing in error


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_leaves_nothing_half_written(remat, folder):
    os.symlink("/dev/full", folder / "full.csv")
    before = set(os.listdir(folder))
    said = remat("allocate", "--buffers", "buffers.csv", "-o", "full.csv")
    assert (said.code, said.err) == (
        2,
        "remat: full.csv: No space left on device; make room, or choose another folder\n",
    )
    assert set(os.listdir(folder)) == before


# ---------------------------------------------------------------- --allocator arena


def test_solve_and_verify_tell_of_the_packed_peak(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--allocator", "arena", "-o", "packed.json")
    assert any(line.startswith("packed     ") and "of the peak (the minimum)" in line for line in said.lines)
    record = json.loads((folder / "packed.json").read_text())
    assert record["peak_memory"] <= record["packed_bound"] <= record["packed_memory"] <= record["limit"]
    assert f"packed {record['packed_memory']} B" in remat("verify", "chain.nodes.csv", "packed.json").flat
    verified = remat("verify", "chain.nodes.csv", "packed.json", "--json").record
    assert verified["packed_memory"] == record["packed_memory"]
    (folder / "false.json").write_text(
        json.dumps({**record, "packed_memory": record["peak_memory"] - 1, "packed_bound": 0})
    )
    said = remat("verify", "chain.nodes.csv", "false.json")
    assert (said.code, "packed_memory" in said.err) == (1, True)


def test_an_alignment_may_put_a_budget_out_of_reach(remat, folder):
    asked = ("solve", "chain.nodes.csv", "--budget", "80%", "--solver", "chen_sqrt")
    asked = (*asked, "--allocator", "arena", "--alignment", "64")
    said = remat(*asked)
    assert said.code == 3
    assert "no schedule that packs into 22 B was found" in said.err
    assert "or an alignment below 64" in said.err
    assert remat(*asked, "--json").record["feasible"] is False


def test_compare_has_a_column(remat, folder):
    asked = ("compare", "chain.nodes.csv", "--budget", "80%", "--solver", "chen_sqrt,chen_greedy")
    said = remat(*asked, "--allocator", "arena")
    assert any(line.split()[:3] == ["solver", "peak", "packed"] for line in said.lines)
    entries = remat(*asked, "--allocator", "arena", "--alignment", "2", "--json").record["solvers"]
    assert all(entry["packed_memory"] >= entry["peak_memory"] for entry in entries if entry["feasible"])
    assert "packed" not in remat(*asked).out


# ---------------------------------------------------------------- start-up, interrupts


def test_interrupted_it_says_so(remat, folder, monkeypatch):
    def stopped(buffers, **given):
        return replace(pack(buffers, **given), stop=Stop.INTERRUPTED)

    monkeypatch.setattr("remat_algos.cli.commands.allocate.pack", stopped)
    said = remat("allocate", "--buffers", "buffers.csv", "-o", "out.csv")
    assert said.code == 130
    assert "stopped" in said.out
    assert (folder / "out.csv").exists()
    said = remat("allocate", "--buffers", "buffers.csv", "--json")
    assert (said.code, json.loads(said.out)["interrupted"]) == (130, True)
