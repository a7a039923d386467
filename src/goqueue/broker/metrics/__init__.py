"""What is counted in the node, and how it is told to Prometheus."""
