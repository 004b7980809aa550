"""Pictures of allocations: every buffer where it lies while it is needed, by the role of what it holds."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from rich.cells import cell_len

from remat_algos import plot
from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.arenas import SplitAllocation, pack_arenas
from remat_algos.allocate.sharing import separate_storage, share_storage
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import tuning
from remat_algos.plot.colours import ROLES
from remat_algos.schedule.simulation import simulate
from tests.test_plot import diamond, overlapping, rendered, simulations, trained

EMPTY = Allocation(Buffers([], [], []), [], [], 0, "nothing to place", 0)
NOTHING = Allocation(Buffers([3], [4], [0]), [0], [0], 0, "separate", 0)  # a buffer of no bytes


def areas(ax):
    """Label to the set of (left, right, low, high) of its rectangles."""
    found = {}
    for collection in ax.collections:
        assert isinstance(collection, PolyCollection)
        boxes = [path.get_extents() for path in collection.get_paths()]
        found[collection.get_label()] = {(box.x0, box.x1, box.y0, box.y1) for box in boxes}
    return found


def expected(allocation, simulation):
    """The same, said plainly."""
    buffers, found = allocation.buffers, {}
    for i in range(len(buffers)):
        if not buffers.size[i]:
            continue
        role = "workspace"
        if buffers.instance[i] >= 0:
            value, made_at = (
                simulation.lifetimes.value[buffers.instance[i]],
                simulation.lifetimes.made_at[buffers.instance[i]],
            )
            again = simulation.schedule.order[made_at] in simulation.schedule.order[:made_at]
            forward = simulation.graph.forward[simulation.graph.producer[value]]
            role = "gradients" if not forward else "recomputed" if again else "kept"
        low = int(allocation.offset[i])
        place = (buffers.begin[i] - 0.5, buffers.release_step[i] - 0.5, low, low + int(buffers.size[i]))
        found.setdefault(ROLES[role].label, set()).add(place)
    return found


@given(simulations(), st.sampled_from([separate_storage, share_storage]))
def test_every_buffer_is_drawn_where_it_lies_by_its_role(simulation, allocate):
    allocation = allocate(Buffers.of(simulation))
    ax = plot.addresses(allocation, simulation=simulation)
    assert areas(ax) == expected(allocation, simulation)
    colours = {look.label: look.colour for look in ROLES.values()}
    for collection in ax.collections:
        assert (
            to_hex(collection.get_facecolor()[0], keep_alpha=False).upper() == colours[collection.get_label()].upper()
        )


def test_what_is_written_over_ends_where_the_other_begins():
    allocation = separate_storage(Buffers([0, 2], [3, 5], [4, 4], over=[-1, 0]))
    assert areas(plot.addresses(allocation))["buffer"] == {(-0.5, 1.5, 0, 4), (1.5, 4.5, 0, 4)}


def test_the_arena_and_max_live_are_lines_and_stand_in_the_legend():
    allocation = separate_storage(Buffers([0, 1, 2], [2, 3, 4], [4, 2, 2]))
    ax = rendered(plot.addresses(allocation))
    assert {line.get_label(): line.get_ydata()[0] for line in ax.lines} == {"arena": 8, "max live": 6}
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["arena 8 B", "max live 6 B", "buffer"]
    assert ax.get_title() == "3 buffers over 4 steps, separate\narena 8 B, 1.333 of max live"
    assert len(areas(ax)["buffer"]) == 3
    smallest = plot.addresses(separate_storage(Buffers([0, 0], [1, 1], [4, 2])))
    assert [line.get_label() for line in smallest.lines] == ["arena"]


def split_by_hand():
    """5 bytes used of 8, and 2 of 4."""
    return SplitAllocation(Buffers([0, 1, 2], [2, 3, 4], [4, 2, 5]), [0, 1, 0], [0, 0, 0], (8, 4), "by hand")


def test_arenas_stand_on_top_of_each_other_with_a_line_above_each():
    ax = rendered(plot.addresses(split_by_hand()))
    assert areas(ax)["buffer"] == {(-0.5, 1.5, 0, 4), (0.5, 2.5, 5, 7), (1.5, 3.5, 0, 5)}
    assert {line.get_label(): line.get_ydata()[0] for line in ax.lines} == {"arena 0": 5, "arena 1": 7}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["arena 0, 5 B", "arena 1, 2 B", "buffer"]
    assert ax.get_title() == "3 buffers over 4 steps, by hand\narena 0: 5 B of 8 B; arena 1: 2 B of 4 B"
    unused = plot.addresses(pack_arenas(Buffers([0], [1], [3]), [4, 4, 4]))
    assert [line.get_label() for line in unused.lines] == ["arena 0"]


def test_arenas_of_a_schedule_have_its_colours_and_names():
    simulation = diamond()
    buffers = Buffers.of(simulation)
    split = pack_arenas(buffers, [buffers.max_live, buffers.max_live])
    ax = rendered(plot.addresses(split, simulation=simulation))
    assert areas(ax) == expected(split.part(0), simulation)
    assert plot.text("addresses", split, simulation=simulation).splitlines()[-1].startswith("█ kept")


def test_a_text_of_arenas_names_where_each_begins():
    lines = plot.text("addresses", split_by_hand(), width=40, height=7).splitlines()
    assert [line.split("│")[0].strip() for line in lines if "│" in line] == ["", "arena 1", "", "", "", "", "arena 0"]
    assert lines[1] == "arena 0: 5 B of 8 B; arena 1: 2 B of 4 B"


def test_an_arena_above_max_live_that_is_proven_least_says_so():
    allocation = Allocation(Buffers([0, 1], [1, 2], [4, 2]), [0, 1], [0, 4], 6, "canonical search", 6)
    assert "1.500 of max live, which is proven minimal" in plot.text("addresses", allocation)


def test_names_stand_in_rectangles_that_have_room():
    simulation = diamond()
    ax = rendered(plot.addresses(separate_storage(Buffers.of(simulation)), simulation=simulation))
    assert sorted(text.get_text() for text in ax.texts) == ["A", "A", "B", "C"]
    named = separate_storage(Buffers([0], [9], [4], names=("weights",)))
    assert [text.get_text() for text in plot.addresses(named).texts] == ["weights"]


def test_buffers_without_names_have_their_index_and_high_ones_have_upright_names():
    ax = rendered(plot.addresses(separate_storage(Buffers([0, 2], [3, 5], [4, 4]))))
    assert [text.get_text() for text in ax.texts] == ["0", "1"]
    names = tuple(f"buffer{i}" for i in range(30))
    ax = rendered(plot.addresses(separate_storage(Buffers(range(30), range(1, 31), [1] * 30, names=names))))
    assert not ax.texts
    ax = rendered(plot.addresses(share_storage(Buffers(range(30), range(1, 31), [1] * 30, names=names))))
    assert {(text.get_text(), text.get_rotation()) for text in ax.texts} == {(name, 90) for name in names}
    assert overlapping(ax) == []


@pytest.mark.parametrize("allocate", [separate_storage, share_storage])
def test_no_text_lies_over_another(allocate):
    simulation = trained().simulation
    assert overlapping(plot.addresses(allocate(Buffers.of(simulation)), simulation=simulation)) == []


@pytest.mark.parametrize("allocation", [EMPTY, NOTHING], ids=["nothing", "no bytes"])
def test_nothing_is_drawn_too(allocation):
    ax = rendered(plot.addresses(allocation))
    assert areas(ax) == {}
    assert f"{len(allocation.buffers)} buffer" in plot.text("addresses", allocation)


def test_steps_are_written_out_however_many():
    many = separate_storage(Buffers([0, 1_999_000], [1_000, 2_000_000], [4, 4]))
    said = [text.get_text() for text in rendered(plot.addresses(many)).get_xticklabels()]
    assert "1,000,000" in said
    few = rendered(plot.addresses(separate_storage(Buffers([0], [2], [4]))))
    assert [text.get_text() for text in few.get_xticklabels() if text.get_text() in ("0", "1")] == ["0", "1"]
    late = rendered(plot.addresses(separate_storage(Buffers([5_000_000], [5_000_003], [4]))))
    assert "5,000,001" in [text.get_text() for text in late.get_xticklabels()]
    assert late.xaxis.get_offset_text().get_text() == ""


def test_a_plan_says_where_its_simulation_is():
    plan = trained()
    for draw in (plot.addresses, partial(plot.text, "addresses")):
        with pytest.raises(TypeError, match="simulation is a Plan; give its `simulation`"):
            draw(separate_storage(Buffers.of(plan.simulation)), simulation=plan)


def test_thousands_of_buffers_are_one_collection_without_outlines(tmp_path):
    count = tuning.MAX_OUTLINED + 1
    begin = np.arange(count)
    allocation = share_storage(Buffers(begin, begin + 3, 1 + begin % 7))
    ax = plot.addresses(allocation)
    assert [len(collection.get_paths()) for collection in ax.collections] == [count]
    assert not ax.texts
    plot.save(ax, tmp_path / "many.png")
    assert (tmp_path / "many.png").read_bytes()[:4] == b"\x89PNG"


# ---------------------------------------------------------------- text


@given(simulations(), st.sampled_from([separate_storage, share_storage]), st.integers(30, 100), st.integers(2, 30))
def test_texts_keep_to_the_width_and_the_height(simulation, allocate, width, height):
    allocation = allocate(Buffers.of(simulation))
    lines = plot.text("addresses", allocation, simulation=simulation, width=width, height=height).splitlines()
    assert max(map(cell_len, lines)) <= max(width, 40)
    assert sum("│" in line for line in lines) == max(height, 4)


@given(simulations())
def test_a_text_with_room_shows_every_byte_at_every_step(simulation):
    """As many rows as bytes, and no column for more than one step: each cell is what lies there."""
    allocation = share_storage(Buffers.of(simulation))
    buffers = allocation.buffers
    if allocation.size < 4:
        return
    text = plot.text(
        "addresses", allocation, simulation=simulation, width=10 + 4 * len(simulation.schedule), height=allocation.size
    )
    rows = [line.split("│", 1)[1] for line in text.splitlines() if "│" in line][::-1]
    first = int(buffers.begin.min())
    characters = {look.character for look in ROLES.values()}
    for address, row in enumerate(rows):
        for step in range(first, int(buffers.end.max())):
            lies = (buffers.begin <= step) & (step < buffers.release_step)
            lies &= (allocation.offset <= address) & (address < allocation.offset + buffers.size)
            assert (row.ljust(1000)[(step - first) * 4] in characters) == lies.any()


def test_a_text_says_what_its_characters_are():
    simulation = simulate(ComputationGraph.from_edges([("A", "B")], memory=[4, 2], workspace=[0, 2]), [0, 1])
    said = plot.text("addresses", separate_storage(Buffers.of(simulation)), simulation=simulation)
    assert said.splitlines()[-1] == "█ kept  · workspace"
