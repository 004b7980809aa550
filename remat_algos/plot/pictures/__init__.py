"""One file per picture."""
