"""Pictures of schedules, frontiers and graphs, and their forms in plain text."""
