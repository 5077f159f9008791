"""Attacks on a release, each with a control group of people who are not in it.

What an intruder learns about people outside as well as inside is knowledge about the population, which is the purpose
of a release. Only what is learnt about people inside *beyond* that is disclosed by the release. Every attack is
therefore run twice: on people of the original, and on people of the reference, who are not in it (Giomi et al., 2023).
"""
