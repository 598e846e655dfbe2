"""What the tools do, importable and testable."""
