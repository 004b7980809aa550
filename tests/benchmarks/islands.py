"""Islands of one search on one worker and on two, and on more cores by simulation: python -m tests.benchmarks.islands.

Prints, and with `--write` puts into docs/sweeps.md, the seconds of `search_islands` on one and on two workers, in turn,
and their ratio; and from the seconds of each island in each round, measured alone on a core, how long rounds of more
islands would take on more cores. The latter is a simulation: a round ends with its slowest island, and nothing else is
counted.
"""

import argparse
import random
import statistics
import time
from unittest import mock

import remat_algos as ra
from remat_algos.sweeps import islands
from remat_algos.sweeps.children import Processes, solved
from tests.benchmarks.occasion import ROOT, Occasion
from tests.benchmarks.page import line, placed

PAGE = ROOT / "docs" / "sweeps.md"
CORES = (1, 2, 4, 8, 16, 32)


def workers(graph, budget, rounds, moves, repeats):
    """Seconds on one and on two workers, a list of each; the plans have to be equal."""
    seconds, orders = {1: [], 2: []}, set()
    for _ in range(repeats):
        for count in seconds:
            begun = time.perf_counter()
            plan = ra.sweeps.search_islands(
                graph, budget, islands=2, rounds=rounds, moves=moves, effort="fast", processes=count
            )
            seconds[count].append(time.perf_counter() - begun)
            orders.add(tuple(plan.schedule.order.tolist()))
    if len(orders) != 1:
        raise AssertionError("the number of workers changed the plan")
    return seconds


def island_seconds(graph, budget, count, rounds, moves):
    """CPU seconds of each island in each round, one after the other."""
    spent = []

    def measured(*arguments):
        figures, plan = solved(*arguments)
        spent.append(figures["cpu_seconds"])
        return figures, plan

    with mock.patch.object(islands, "solved", measured), Processes(1) as pool:
        ra.sweeps.search_islands(graph, budget, pool, islands=count, rounds=rounds, moves=moves, effort="fast")
    return [spent[i : i + count] for i in range(0, len(spent), count)]


def simulated(rounds, cores, count, rng):
    """Seconds of rounds of `count` islands on so many cores, with times drawn from those of each measured round."""
    total = 0.0
    for times in rounds:
        free = [0.0] * cores
        for seconds in [rng.choice(times) for _ in range(count)]:
            first = min(range(cores), key=free.__getitem__)
            free[first] += seconds
        total += max(free)
    return total


def main(arguments=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--budget", default="50%")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--moves", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write docs/sweeps.md")
    given, where = parser.parse_args(arguments), Occasion.now()
    graph = ra.differentiate(ra.zoo.build(given.model).graph)
    seconds = workers(graph, given.budget, given.rounds, given.moves, given.repeats)
    one, two = (statistics.median(each) for each in seconds.values())
    rounds = island_seconds(graph, given.budget, 8, given.rounds, given.moves)
    spread = max(max(times) / statistics.mean(times) for times in rounds)
    rng = random.Random(0)
    took = {cores: statistics.median(simulated(rounds, cores, 32, rng) for _ in range(99)) for cores in CORES}
    text = (
        f"Measured on {where}: {given.model} at {given.budget}, {graph.n_nodes} nodes, {given.rounds} rounds of "
        f"{given.moves:,} moves. 2 islands take {one:.1f} s on one worker and {two:.1f} s on two, {one / two:.2f} "
        f"times faster, with the same plan. Of 8 islands the slowest takes {spread:.2f} times their mean in the worst "
        "round. More cores are simulated, from these times alone: 32 islands, the times of each drawn from those of 8"
    )
    head = ["cores", *map(str, CORES)]
    ratios = ["times faster (simulated)", *(f"{took[1] / took[cores]:.1f}" for cores in CORES)]
    text = "\n".join([f"{text}:", "", *map(line, (head, ["---"] * len(head), ratios))])
    print(text)
    if given.write:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), "islands", text), encoding="utf-8")


if __name__ == "__main__":
    main()
