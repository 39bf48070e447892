"""What `make packages` does: a Debian root to build in, static programs, packages, images of containers, and the list of it all with checksums and a signature."""
