"""The solvers, one module each, which `remat_algos.solvers.registry` imports."""
