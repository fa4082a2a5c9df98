"""The reference interpreter: runs linear IR in NumPy, slowly, and checks every access."""
