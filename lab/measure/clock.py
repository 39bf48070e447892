"""How long it will still take: the plan, corrected by how long it really took so far."""

import time


class Pace:
    """How fast a plan is really carried out. What is planned and what is left is told in seconds."""

    def __init__(self):
        self.behind, self.start = 0.0, time.monotonic()

    def minutes(self):
        """Since the start."""
        return (time.monotonic() - self.start) / 60

    def passed(self, planned_s):
        """That much of the plan is over."""
        self.behind += planned_s

    def really(self, planned_s):
        """The minutes that a part of the plan will take, if it goes on as it went."""
        pace = (time.monotonic() - self.start) / self.behind if self.behind else 1.0
        return pace * planned_s / 60


class Clock(Pace):
    """Of a plan that is known from the start: the seconds of each part."""

    def __init__(self, planned):
        super().__init__()
        self.planned = planned

    def left(self, done):
        """In minutes, as text, when `done` parts are over."""
        self.behind = sum(self.planned[:done])
        return f"{self.really(sum(self.planned[done:])):.1f} min"
