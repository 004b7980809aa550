# Written by docs/stubs.py.
from remat_algos.solvers.echo_regions import Region as Region
from remat_algos.solvers.echo_regions import find_echo_regions as find_echo_regions
from remat_algos.solvers.formula_chains import formula_frontier as formula_frontier
from remat_algos.solvers.formula_chains import least_budget as least_budget
