"""Read and print amounts and words: units, decimals, names in sentences, tables."""
