"""What a run will take, before it is started: measured on this machine in a child process, computed for others."""
