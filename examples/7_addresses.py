"""Addresses for a plan: the U-Net in one arena, with and without writing in place.

You learn to get the buffers of a plan, to overwrite values at their last read, and to assign
addresses: separate, shared as in chen2016, or packed as closely as possible.

Usage: python examples/7_addresses.py [FOLDER for the picture]
"""

import sys
from pathlib import Path

import remat_algos as ra

FOLDER = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "figures"

graph = ra.read_graph(Path(__file__).parent / "graphs" / "unet.nodes.csv")
training = ra.differentiate(graph)

for budget in ("100%", "60%"):
    plan = ra.solve(training, budget, solver="greedy_remat")
    # For each instance, the one that it overwrites, or -1.
    overwrites = ra.allocate.find_overwrites(plan.simulation)
    pairs = (overwrites >= 0).sum()
    print(f"a budget of {budget}: peak {plan.peak_memory:,} bytes, {pairs} values in place")
    for how, written in (("side by side", None), ("in place", overwrites)):
        buffers = ra.allocate.Buffers.of(plan.simulation, written)
        methods = (ra.allocate.separate_storage, ra.allocate.share_storage, ra.allocate.pack)
        separate, shared, packed = (method(buffers) for method in methods)
        packed.verify()  # no two buffers overlap
        least = "the minimum" if packed.proven else f"lower bound {packed.bound:,}"
        print(f"  {how}: separate {separate.size:,}, shared {shared.size:,},", end=" ")
        print(f"packed {packed.size:,} ({least})")

picture = ra.plot.addresses(packed, simulation=plan.simulation)
ra.plot.save(picture, FOLDER / "addresses.svg")
