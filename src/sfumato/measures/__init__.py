"""What a release gives away and what it keeps: every score with its interval, its direction and the rows used."""
