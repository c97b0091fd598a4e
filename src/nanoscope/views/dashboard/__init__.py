"""A page that shows the runs of a folder as they grow, and explains any log that is pasted into it."""
