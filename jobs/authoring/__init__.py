"""Commands that write, check and try out specs."""
