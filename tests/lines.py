#!/usr/bin/env python3
"""Counts the lines of Rust source of each crate, without tests: tests/lines.py [DIRECTORY]

Test files, benches, examples and items under `#[cfg(test)]` do not count, nor does a module whose declaration is such an item. Blank
lines and comments do. Generated code and crates of derives count as every other.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)

TEST = re.compile(r"( *)#\[cfg\((test|all\(test,.*)\)\]")
MODULE = re.compile(r" *(?:pub(?:\([^)]*\))? )?mod (\w+);")


def is_test(path):
    return "tests" in path.parts or path.name == "tests.rs"


def divided(text):
    """Counts the lines outside items under `#[cfg(test)]`, and finds the names of the modules that are such items. rustfmt ends an
    item at the indentation of its first line, with a brace or a semicolon."""
    counted, modules, inside = 0, [], None
    for line in text.splitlines():
        if inside is None:
            begins = TEST.fullmatch(line)
            inside = begins and begins[1]
            counted += not begins
            continue
        if declared := MODULE.fullmatch(line):
            modules.append(declared[1])
        indentation = line[: len(line) - len(line.lstrip())]
        is_attribute = line.lstrip().startswith(("#", "//"))
        if line and indentation == inside and not is_attribute and line.rstrip().endswith((";", "}", ",")):
            inside = None
    return counted, modules


def lines(src):
    """Counts the lines of a crate's sources."""
    sources = {path: divided(path.read_text()) for path in src.rglob("*.rs") if not is_test(path.relative_to(src.parent))}
    tests = set()
    for path, (_, modules) in sources.items():
        inside = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        tests |= {inside / name for name in modules}
    counts = [count for path, (count, _) in sources.items() if not tests & {path.with_suffix(""), *path.parents}]
    return sum(counts)


def main():
    total = 0
    for crate in sorted(path for path in (ROOT / "crates").iterdir() if (path / "src").is_dir()):
        count = lines(crate / "src")
        total += count
        print(f"{count:7} {crate.name}")
    print(f"{total:7} in all")


if __name__ == "__main__":
    main()
