"""What talks to people and programs that run Skyband: lines, progress, outcomes, notifications."""
