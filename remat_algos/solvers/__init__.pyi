from .formula_chains import formula_frontier as formula_frontier
from .formula_chains import least_budget as least_budget
from .methods.echo import Region as Region
from .methods.echo import find_echo_regions as find_echo_regions
