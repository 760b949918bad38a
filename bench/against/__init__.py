"""The ways to do without Skyband that ``bench/alternatives.py`` measures, each as who knows it well would write it."""
