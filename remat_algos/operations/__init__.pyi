# Written by docs/stubs.py.
from remat_algos.operations.formula import Formula as Formula
from remat_algos.operations.kind import OperationKind as OperationKind
from remat_algos.operations.kind import operation_kind as operation_kind
from remat_algos.operations.kind import operation_kinds as operation_kinds
from remat_algos.operations.kind import register as register
