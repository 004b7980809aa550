from .boundary import add_boundary as add_boundary
from .kinds import OperationKind as OperationKind
from .kinds import operation_kind as operation_kind
from .kinds import operation_kinds as operation_kinds
from .kinds import register_kinds as register_kinds
from .parts import Backward as Backward
from .parts import Labels as Labels
from .parts import Resident as Resident
