"""Allocators: what each reserves for a schedule."""
