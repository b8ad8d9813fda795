"""What is promised of the rows, the pages and the mentions on Cassandra, measured on a node of the bench's own."""
