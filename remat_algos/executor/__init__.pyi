from .measurements import Execution as Execution
from .operators import Operators as Operators
from .operators import SyntheticOperators as SyntheticOperators
from .run import shrink as shrink
from .validate import Validation as Validation
