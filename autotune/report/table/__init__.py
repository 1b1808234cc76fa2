"""One line or sample for each job, for programs that collect many: CSV and Prometheus."""
