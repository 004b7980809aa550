"""Families of networks, one file each; the registry finds them."""
