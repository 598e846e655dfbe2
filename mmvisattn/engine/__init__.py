"""What changes training itself: optimizer wrappers, their constructors, and hooks."""
