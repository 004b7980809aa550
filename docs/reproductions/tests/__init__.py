"""Tests of the reproductions; they have the settings of all tests."""
