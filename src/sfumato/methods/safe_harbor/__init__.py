"""HIPAA safe harbor: identifiers removed, dates as years, ZIP codes cut to three digits."""
