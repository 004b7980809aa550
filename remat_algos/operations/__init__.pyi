from .formula import Formula as Formula
from .kind import OperationKind as OperationKind
from .kind import operation_kind as operation_kind
from .kind import operation_kinds as operation_kinds
from .kind import register as register
