"""The one exception that reaches the user as a line of text."""


class BundleError(Exception):
    """Something the user can mend; the message is one line naming the file or key and a next step."""
