"""A page on which plans are stepped through: its data, and its text."""
