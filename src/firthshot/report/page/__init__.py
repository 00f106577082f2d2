"""One self-contained web page of a report."""
