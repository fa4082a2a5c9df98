"""Which opts a kernel gets: chosen from how its accesses move, or searched by time."""
