# Written by docs/stubs.py.
from remat_algos.schedule.canonical import canonical_schedule as canonical_schedule
from remat_algos.schedule.canonical import canonical_trace as canonical_trace
from remat_algos.schedule.checkpoints import checkpoint_schedule as checkpoint_schedule
from remat_algos.schedule.emission import emit as emit
from remat_algos.schedule.matrix_stages import stage_matrices as stage_matrices
from remat_algos.schedule.mirror import mirror_schedule as mirror_schedule
from remat_algos.schedule.one_pass import lowest_pass as lowest_pass
from remat_algos.schedule.passes.cache import reuse_values as reuse_values
from remat_algos.schedule.passes.dead_runs import drop_dead_runs as drop_dead_runs
from remat_algos.schedule.passes.polish import polish as polish
from remat_algos.schedule.passes.sinking import sink_runs as sink_runs
from remat_algos.schedule.step_rows import step_table as step_table
from remat_algos.schedule.unrolling import unroll as unroll
