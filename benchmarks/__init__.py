"""Benchmarks: `make bench` against other libraries, `make bench-quick` alone."""
