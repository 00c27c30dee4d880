"""Development tools that the Makefile calls; each is a module to run."""
