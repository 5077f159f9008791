"""Attacks on a release, each with a control on people who are not in it.

What an intruder learns of people outside as well as of people inside is knowledge about the population, and what the
release is for. Only what is learnt of those inside *beyond* that is the release's doing, so every attack is run twice:
on people of the original, and on people of the reference, who never entered it (Giomi et al., 2023).
"""
