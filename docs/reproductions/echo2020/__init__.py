"""Echo: footprints and overheads of recurrent, attention and residual networks, by recomputed layers."""
