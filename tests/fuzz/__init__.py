"""Random tests that run as long as they are allowed to: `python -m tests.fuzz graphs --seconds 600 --seed 7`."""
