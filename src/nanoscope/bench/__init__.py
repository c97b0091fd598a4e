"""How fast this machine is with nanoscope, and with nanoGPT beside it: turn by turn, in processes of their own."""
