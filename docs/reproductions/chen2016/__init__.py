"""Training deep nets with sublinear memory cost: deep ResNets, a long LSTM, and what it costs in time."""
