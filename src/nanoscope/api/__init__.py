"""What `import nanoscope` offers. `nanoscope/__init__.py` loads each name from here when it is first used."""
