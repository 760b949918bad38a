"""What CSV and JSON share: encodings, numbers with marks, values made of texts."""
