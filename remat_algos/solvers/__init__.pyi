from .echo_regions import Region as Region
from .echo_regions import find_echo_regions as find_echo_regions
from .formula_chains import formula_frontier as formula_frontier
from .formula_chains import least_budget as least_budget
