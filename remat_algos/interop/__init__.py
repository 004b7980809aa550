"""Conversion of graphs and decompositions from and to other libraries, all optional and imported on demand."""
