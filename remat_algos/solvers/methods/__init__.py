"""The solvers, one file each, found by `remat_algos.solvers.registry`."""
