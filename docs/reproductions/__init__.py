"""One folder per paper: its tables and figures, ours beside the paper's numbers."""
