"""Floor 4: from a graph to kernels. What is stored and why; ranges to index expressions; order."""
