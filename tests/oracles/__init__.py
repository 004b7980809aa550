"""Short, obvious, slow programs that say what the fast ones must say, written from the papers."""
