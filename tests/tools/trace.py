# SPDX-License-Identifier: Apache-2.0
"""Checks a trace of kiln trace, and prints what a test compares.

trace.py FILE [killed]: fails where the JSON is not strict, a submission has
no launch of its name (one of a killed process may have none), times do not
nest, or a track has no name.
"""
import json
import sys


def never(text):
    raise ValueError(text)


def fail(*words):
    print(*words, file=sys.stderr)
    sys.exit(1)


def key(event):
    return event["pid"], event["args"]["stream"], event["args"]["serial"]


def check_nesting(track, spans):
    """Each span lies in the one that is open when it begins, or behind it."""
    open_ends = []
    for event in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        # Whole ns are told as us: 0.0005 is half of one.
        while open_ends and open_ends[-1] <= event["ts"] + 0.0005:
            open_ends.pop()
        if open_ends and end > open_ends[-1] + 0.0005:
            fail("track", track, "does not nest at", event)
        open_ends.append(end)


def check_work(events, killed):
    launches = {}
    for event in events:
        if event.get("cat") == "launch":
            if key(event) in launches:
                fail("two launches of one submission:", event)
            launches[key(event)] = event
    for event in events:
        if event.get("cat") != "submit" or "status" in event["args"]:
            continue
        launch = launches.pop(key(event), None)
        if launch is None:
            if not killed:
                fail("no launch for", event)
            continue
        if launch["name"] != event["name"]:
            fail("submitted", event["name"], "launched", launch["name"])
        if launch["ts"] < event["ts"]:
            fail("launched before it was submitted:", launch)
        if launch["args"].get("inline") and (
                launch["ts"] + launch["dur"] >
                event["ts"] + event["dur"] + 0.0005):
            fail("an inline launch outlasts its call:", launch)
    if launches and not killed:
        fail("launches without a submission:", launches)


def check_tracks(events):
    tracks, names, last = {}, set(), -1.0
    for event in events:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names.add((event["pid"], event["tid"]))
            continue
        if event["ts"] < 0 or event.get("dur", 0) < 0:
            fail("a time below zero:", event)
        if event["ph"] != "e":
            if event["ts"] < last:
                fail("not in order of time:", event)
            last = event["ts"]
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for track, spans in tracks.items():
        check_nesting(track, spans)
        if any(e["cat"] == "launch" for e in spans) and track not in names:
            fail("track", track, "has no name")


def check_windows(events):
    begun = {}
    for event in events:
        if event.get("cat") != "window":
            continue
        ident = event["pid"], event["id"]
        if event["ph"] == "b":
            begun[ident] = event
            continue
        begin = begun.pop(ident)
        length = (event["ts"] - begin["ts"]) * 1000
        if abs(length - event["args"]["ns"]) > 1:
            fail("a window of", event["args"]["ns"], "ns is drawn as", length)
    if begun:
        fail("windows without an end:", begun)


def main():
    with open(sys.argv[1], "rb") as file:
        trace = json.loads(file.read().decode("utf-8"), parse_constant=never)
    events = trace["traceEvents"]
    killed = len(sys.argv) > 2
    check_work(events, killed)
    check_tracks(events)
    check_windows(events)
    counts = {}
    for event in events:
        kind = event.get("cat") or event["name"]
        if event["ph"] != "e":
            counts[kind] = counts.get(kind, 0) + 1
    for kind in sorted(counts):
        print(kind, counts[kind])
    for name in sorted({e["name"] for e in events
                        if e.get("cat") in ("launch", "window")}):
        print("name", name)
    clocks = {e["args"]["clock"] for e in events if e.get("cat") == "launch"}
    print("clock", *sorted(clocks))


main()
