"""Families of networks, one module each; the registry finds them."""
