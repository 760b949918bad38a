"""The alternatives to Skyband that ``bench/alternatives.py`` measures, each as an expert in it would write it."""
