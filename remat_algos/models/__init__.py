"""Networks with real shapes, and graphs made by a rule."""
