"""Islands of one search on one worker and on two, and on more cores by simulation: python -m tests.benchmarks.islands.

Prints the seconds of `search_islands` on one and on two workers, in turn, and their ratio; and from the seconds of each
island in each round, measured alone on a core, how long rounds of more islands would take on more cores. The latter is
a simulation: a round ends with its slowest island, and nothing else is counted.
"""

import argparse
import random
import statistics
import time
from unittest import mock

import remat_algos as ra
from remat_algos.sweeps import islands
from remat_algos.sweeps.children import Processes, solved

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
    given = parser.parse_args(arguments)
    graph = ra.differentiate(ra.models.build(given.model).graph)
    seconds = workers(graph, given.budget, given.rounds, given.moves, given.repeats)
    one, two = (statistics.median(each) for each in seconds.values())
    what = f"{given.model} at {given.budget}, {graph.n_nodes} nodes, 2 islands, {given.rounds} rounds"
    print(f"{what} of {given.moves:,} moves: one worker {one:.1f} s, two {two:.1f} s, faster by {one / two:.2f}")
    rounds = island_seconds(graph, given.budget, 8, given.rounds, given.moves)
    spread = max(max(times) / statistics.mean(times) for times in rounds)
    print(f"8 islands: the slowest of a round takes {spread:.2f} of the mean; simulated for 32 islands:")
    rng = random.Random(0)
    alone = statistics.median(simulated(rounds, 1, 32, rng) for _ in range(99))
    for cores in CORES:
        took = statistics.median(simulated(rounds, cores, 32, rng) for _ in range(99))
        print(f"  {cores} cores: {took:.1f} s, faster by {alone / took:.2f}")


if __name__ == "__main__":
    main()
