assert count(figure, outputs, over) == shared.size == 4 and count(figure, outputs, over, share=False) == 6
assert count(figure, outputs) == ra.allocate.Buffers.of(simulation).max_live == simulation.peak_memory
