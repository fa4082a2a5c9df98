"""Floor 0: errors, number formats, settings, target facts. Imports nothing of torpor."""
