"""What all parts use: errors, messages, redaction, units, small files. Imports no other part."""
