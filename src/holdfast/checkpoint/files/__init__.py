"""Reading and writing files, on the local disk and through Hadoop."""
