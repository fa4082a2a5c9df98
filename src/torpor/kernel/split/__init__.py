"""Kernels that are better done as several, or in another order, before opts are chosen."""
