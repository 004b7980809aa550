"""How figures and words are printed and read: units, decimals, names in sentences, tables."""
