"""What the event times of rows mean for a batch and for the watermark."""
