"""The command line that shows the same as a page."""

import shlex


def command(*words: object, **options: object) -> str:
    """Return a command with its options. Several values repeat one; None, "" and False leave it out."""
    line = ["pilotage", *(str(word) for word in words)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            line.append(flag)
        elif value not in (None, "", False):
            for text in value if isinstance(value, list | tuple) else [value]:
                line += [flag, str(text)]
    return shlex.join(line)
