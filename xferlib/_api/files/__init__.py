"""Trees of arrays in files: their structure, the formats, and files that are whole or not there."""
