"""Schedules made better without a new decision: dead runs, what may stay, what may run later."""
