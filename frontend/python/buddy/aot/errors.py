"""The one exception that reaches the user as a line of text."""

_LONGEST = 600


def printable(text: str) -> str:
    """The text on one line, with what cannot be printed escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class BundleError(Exception):
    """Something the user can mend; the message is one line with the file or key and a next step.

    Names out of damaged files may hold anything: what cannot be printed is escaped, and a message
    that grows out of bounds is cut.
    """

    def __init__(self, message: str) -> None:
        line = printable(message[: _LONGEST + 1])
        super().__init__(line if len(line) <= _LONGEST else line[:_LONGEST] + "…")
