"""The table at the end of a run."""


def show(title, head, rows):
    """Prints rows of cells under a head, columns aligned."""
    cells = [list(map(str, head))] + [list(map(str, row)) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for index, row in enumerate(cells):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if index == 0:
            print("  " + "  ".join("-" * width for width in widths))
    print(flush=True)
