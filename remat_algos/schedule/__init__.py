"""Orders of running nodes, and the simulator."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "canonical": "canonical_schedule canonical_trace",
        "checkpoints": "checkpoint_schedule",
        "emission": "emit",
        "mirror": "mirror_schedule",
        "one_pass": "lowest_pass",
        "passes.polish": "polish",
        "passes.cache": "reuse_values",
        "passes.dead_runs": "drop_dead_runs",
        "passes.sinking": "sink_runs",
        "matrix_stages": "stage_matrices",
        "step_rows": "step_table",
        "unrolling": "unroll",
    },
)
