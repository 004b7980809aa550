"""Graphs and decompositions from and to other libraries, each optional and imported on demand."""
