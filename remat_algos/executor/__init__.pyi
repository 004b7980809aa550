# Written by docs/stubs.py.
from remat_algos.executor.execution import Execution as Execution
from remat_algos.executor.layer_operators import LayerOperators as LayerOperators
from remat_algos.executor.operators import Operators as Operators
from remat_algos.executor.operators import SyntheticOperators as SyntheticOperators
from remat_algos.executor.shrinking import shrink as shrink
from remat_algos.executor.training import Training as Training
from remat_algos.executor.training import train as train
from remat_algos.executor.validation import Validation as Validation
