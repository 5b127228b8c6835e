"""figures.py - medians, quartiles, tables, and what is said of each goal."""
import statistics

from peerlib.machine import say


def median(values):
    return statistics.median(values)


def quantile(values, q):
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def stats(values):
    return {"median": median(values), "q1": quantile(values, 0.25), "q3": quantile(values, 0.75), "n": len(values)}


def spread(s, scale=1e3):
    """Median and quartiles for people."""
    return f"{short(s['median'] * scale)} ({short(s['q1'] * scale)}-{short(s['q3'] * scale)})"


def short(x):
    return f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}"


def table(title, head, rows):
    say()
    say(title)
    width = [max(len(str(row[i])) for row in [head] + rows) for i in range(len(head))]
    for row in [head] + rows:
        say("  " + "  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w)
                             for i, (cell, w) in enumerate(zip(row, width))).rstrip())


class Report:
    """What was measured and which goals were reached, for --json and for the summary."""

    def __init__(self):
        self.parts, self.goals = {}, []

    def goal(self, name, value, at_least=None, at_most=None):
        met = value >= at_least if at_most is None else value <= at_most
        self.goals.append({"goal": name, "value": value, "at_least": at_least, "at_most": at_most, "met": met})

    def summary(self):
        rows = [[g["goal"], short(g["value"]), f">= {g['at_least']}" if g["at_most"] is None else f"<= {g['at_most']}",
                 "yes" if g["met"] else "MISSED"] for g in self.goals]
        if rows:
            table("Goals", ["", "measured", "goal", "met"], rows)
