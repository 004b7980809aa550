from .execution import Execution as Execution
from .operators import Operators as Operators
from .operators import SyntheticOperators as SyntheticOperators
from .shrinking import shrink as shrink
from .validation import Validation as Validation
