"""Estimates of the remaining time: the plan, corrected by the pace so far."""

import time


class Pace:
    """The pace at which a plan is carried out. Planned and remaining parts are in seconds."""

    def __init__(self):
        self.behind, self.start = 0.0, time.monotonic()

    def minutes(self):
        """Returns the minutes since the start."""
        return (time.monotonic() - self.start) / 60

    def passed(self, planned_s):
        """Adds a finished part of the plan."""
        self.behind += planned_s

    def expected_minutes(self, planned_s):
        """Returns the minutes that a part of the plan will take at the pace so far."""
        pace = (time.monotonic() - self.start) / self.behind if self.behind else 1.0
        return pace * planned_s / 60


class Clock(Pace):
    """The pace of a plan that is known from the start: the seconds of each part."""

    def __init__(self, planned):
        super().__init__()
        self.planned = planned

    def left(self, done):
        """Returns the remaining minutes as text after `done` parts."""
        self.behind = sum(self.planned[:done])
        return f"{self.expected_minutes(sum(self.planned[done:])):.1f} min"
