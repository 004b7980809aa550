"""Simulations that are wrong: nobody can make one through the public face."""

from dataclasses import replace

from remat_algos.schedule.simulation import unchecked


def tampered(simulation, end, memory_trace=None):
    """The same with other ends of lifetimes, and perhaps another trace."""
    lifetimes = replace(simulation.lifetimes, end=end)
    trace = simulation.memory_trace if memory_trace is None else memory_trace
    return unchecked(simulation.graph, simulation.schedule, lifetimes, trace)
