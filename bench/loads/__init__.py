"""What is measured: a function per load, which drives one server once and says what it saw, by the rows' names."""
