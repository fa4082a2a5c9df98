"""Floor 3: the algebra of views."""
