# SPDX-License-Identifier: Apache-2.0
"""Checks OpenMetrics text on standard input against its rules."""
import re
import sys

LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)'
                    r'(?:\{(' + LABEL + r'(?:,' + LABEL + r')*)?\})?'
                    r' (-?[0-9]+(?:\.[0-9]+)?)')
SUFFIX = {"gauge": "", "counter": "_total"}


def check(text):
    assert text.endswith("# EOF\n"), "does not end with # EOF"
    families, seen, current = {}, set(), None
    # Only a line feed ends a line, whatever else a label holds.
    for line in text[:-len("# EOF\n")].split("\n")[:-1]:
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            if what == "TYPE":
                assert name not in families, "family twice: " + name
                families[name] = rest
                current = name
            assert name == current, "out of its family: " + line
            if what == "UNIT":
                assert name.endswith("_" + rest), "unit is no suffix: " + line
            assert what in ("TYPE", "UNIT", "HELP"), line
            continue
        match = SAMPLE.fullmatch(line)
        assert match, "no sample: " + line
        assert match[1] == current + SUFFIX[families[current]], line
        assert line.rsplit(" ", 1)[0] not in seen, "twice: " + line
        seen.add(line.rsplit(" ", 1)[0])
    return len(seen)


if __name__ == "__main__":
    print(check(sys.stdin.buffer.read().decode("utf-8")))
