"""Random cron expressions, in Airflow's Python: those that pass Skyband's check are handed to Airflow's timetable."""

import importlib.util
import json
import random


def part(rng, low, high, names):
    def value():
        return rng.choice(names) if names and rng.random() < 0.3 else str(rng.randint(low, high + (rng.random() < 0.02)))

    kind = rng.random()
    base = "*" if kind < 0.4 else value() if kind < 0.7 else f"{value()}-{value()}"
    return base + (f"/{rng.randint(1, 70)}" if rng.random() < 0.25 else "")


def main(checker, count):
    """Prints how many were taken, how many refused, and those that Airflow does not take after all."""
    import pendulum
    from airflow.timetables.trigger import CronTriggerTimetable

    spec = importlib.util.spec_from_file_location("cron", checker)
    cron = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cron)
    rng, taken, refused, wrong = random.Random(1), 0, 0, []
    for n in range(count):
        fields = [part(rng, low, high, cron._NAMES.get(name)) for name, low, high in cron._FIELDS]
        # Often no day of the week, so that the days of months matter.
        text = " ".join([*fields[:4], "*"] if n % 3 == 0 else fields)
        if cron.check_cron(text) is not None:
            refused += 1
            continue
        taken += 1
        try:
            timetable = CronTriggerTimetable(text, timezone="UTC")
            timetable.validate()
            timetable._get_next(pendulum.datetime(2026, 1, 1))
        except Exception as e:
            wrong.append([text, str(e)])
    print(json.dumps([taken, refused, wrong]))
