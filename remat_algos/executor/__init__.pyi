from .execution import Execution as Execution
from .layer_operators import LayerOperators as LayerOperators
from .operators import Operators as Operators
from .operators import SyntheticOperators as SyntheticOperators
from .shrinking import shrink as shrink
from .training import Training as Training
from .training import train as train
from .validation import Validation as Validation
