"""Structure of graphs: lower sets, articulation values, tree decompositions."""
