"""Orders of running nodes, and the simulator."""
