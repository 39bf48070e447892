"""Tables in Markdown, for the documents that the runs write."""


def table(head, rows):
    """Returns a table with these column names; each cell of a row is shown as its text."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])
