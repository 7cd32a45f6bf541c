"""The pages, one file each: what a page reads, as plain data for its template of the same name."""
