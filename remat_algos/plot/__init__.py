"""Pictures of schedules, frontiers and graphs, also in plain text."""

from remat_algos.namespace import namespace

__all__, __getattr__, __dir__ = namespace(
    __name__,
    {
        "pictures.memory": "memory memory_text",
        "pictures.schedule": "schedule schedule_text",
        "pictures.graph": "graph graph_text",
        "pictures.frontier": "frontier frontier_text",
        "pictures.bounds": "bounds bounds_text",
        "pictures.breakdown": "breakdown breakdown_text",
        "pictures.matrix": "matrix matrix_text",
        "pictures.lattice": "lattice",
        "pictures.terms": "terms",
        "pictures.decomposition": "decomposition decomposition_text",
        "pictures.addresses": "addresses addresses_text",
        "pictures.timeline": "timeline timeline_text",
        "pictures.validation": "validation validation_text",
        "pictures.sweep": "profiles profiles_text overheads overheads_text solve_times solve_times_text",
        "picture_file": "save",
        "stepping.report_page": "report",
        "stepping.animation": "animation",
    },
)
