"""Bytes of shapes; FLOPs and bytes moved to time."""
