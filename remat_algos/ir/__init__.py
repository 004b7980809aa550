"""The data: graphs, their costs, their labels, and the files they travel in."""
