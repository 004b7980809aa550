"""Conversion of graphs from and to other libraries, which are optional and imported on demand."""
