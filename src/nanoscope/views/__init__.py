"""What people look at: the terminal report, charts, the annotated log."""
