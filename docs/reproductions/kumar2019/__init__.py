"""Rematerialization by tree decompositions: widths, peaks and lengths of ResNets, feed-forward nets, Transformers."""
