"""nanoscope and nanoGPT side by side on this machine's CPU: they take turns, each in processes of its own."""
