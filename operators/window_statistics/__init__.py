"""Statistics of the rows before each row: exact sums, means, deviations, extremes and counts of a sliding window."""

from skyband.operators.window_statistics.configuration import Statistic, WindowStatisticsConfiguration
from skyband.operators.window_statistics.window_statistics import StatisticsRows, WindowStatistics

__all__ = ["Statistic", "StatisticsRows", "WindowStatistics", "WindowStatisticsConfiguration"]
