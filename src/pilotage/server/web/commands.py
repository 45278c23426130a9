"""The command line that shows the same as a page."""

import shlex


def command(*words: object, **options: object) -> str:
    """Return a command with its options. Several values repeat one; None, "" and False leave it out."""
    told = ["pilotage", *(str(word) for word in words)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            told.append(flag)
        elif value not in (None, "", False):
            for one in value if isinstance(value, list | tuple) else [value]:
                told += [flag, str(one)]
    return shlex.join(told)
