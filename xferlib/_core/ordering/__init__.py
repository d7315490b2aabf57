"""Events, captures and graphs: the order of the work of streams."""
