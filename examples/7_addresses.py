"""Addresses for a plan: the U-Net of this folder in one arena, and what working in place saves.

You learn to go from a plan to the buffers that it needs, to write values over what is read for the
last time, and to find addresses: separate, shared as in chen2016, packed as closely as can be.

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
    over = ra.allocate.find_overwrites(plan.simulation)  # which instance each one is written over
    pairs = (over >= 0).sum()
    print(f"a budget of {budget}: peak {plan.peak_memory:,} bytes, {pairs} values in place")
    for how, written in (("side by side", None), ("in place", over)):
        buffers = ra.allocate.Buffers.of(plan.simulation, written)
        methods = (ra.allocate.separate_storage, ra.allocate.share_storage, ra.allocate.pack)
        separate, shared, packed = (method(buffers) for method in methods)
        packed.verify()  # no two buffers meet
        least = "the minimum" if packed.proven else f"lower bound {packed.bound:,}"
        print(f"  {how}: separate {separate.size:,}, shared {shared.size:,},", end=" ")
        print(f"packed {packed.size:,} ({least})")

picture = ra.plot.addresses(packed, simulation=plan.simulation)
ra.plot.save(picture, FOLDER / "addresses.svg")
