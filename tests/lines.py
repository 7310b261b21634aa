#!/usr/bin/env python3
"""Counts the lines of Rust source of each crate, without tests: tests/lines.py [DIRECTORY]

Test files, benches, examples and modules under `#[cfg(test)]` do not count. Blank lines and comments do.
"""

import pathlib
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)


def is_test(path):
    return "tests" in path.parts or path.name == "tests.rs"


def lines(text):
    """Counts the lines outside `#[cfg(test)]` modules. rustfmt closes such a module with a brace at the indentation of its first line."""
    counted, ends = 0, None
    rest = text.splitlines()
    for number, line in enumerate(rest):
        if ends is not None:
            if line == ends:
                ends = None
        elif line.strip() == "#[cfg(test)]" and number + 1 < len(rest) and rest[number + 1].lstrip().startswith("mod "):
            indentation = line[: len(line) - len(line.lstrip())]
            # A module in a file of its own ends with its line.
            ends = rest[number + 1] if rest[number + 1].rstrip().endswith(";") else indentation + "}"
        else:
            counted += 1
    return counted


def main():
    total = 0
    for crate in sorted(path for path in (ROOT / "crates").iterdir() if (path / "src").is_dir()):
        sources = [path for path in (crate / "src").rglob("*.rs") if not is_test(path.relative_to(crate))]
        count = sum(lines(path.read_text()) for path in sources)
        total += count
        print(f"{count:7} {crate.name}")
    print(f"{total:7} in all")


if __name__ == "__main__":
    main()
