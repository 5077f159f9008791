"""Terms that the page explains where they stand, in one or two plain sentences; docs/glossary.md has all of them."""

from __future__ import annotations

GLOSSARY = {
    "role": "How a column is treated: removed, protected, or released as it is.",
    "identifier": "A column that names a person, such as a name or a number of a person. It is removed.",
    "quasi-identifier": "A column that others may know, and that alone or with other columns may single out a person. "
    "It is protected.",
    "sensitive column": "A column with what an intruder wants to learn. It is released, and the method can see to it "
    "that people who look alike do not all have the same value.",
    "other column": "A column that needs no protection. It is released as it is.",
    "sampling weight": "The number of people that a row stands for. Statistics use it.",
    "kind": "What the values of a column are: continuous or whole numbers, dates, ordered or unordered categories, "
    "text, or yes and no.",
    "generalization tree": "Broader and broader groups of the values of a column, up to “any value”: a town, its "
    "county, its country.",
    "population": "The people among whom an intruder searches, those in the table included.",
    "intruder": "Somebody who tries to learn something about a person from the release.",
    "group": "Rows that are equal in all quasi-identifiers: people whom an intruder cannot tell apart.",
    "k-anonymity": "Every row looks exactly like at least k − 1 others in the columns that others may know.",
    "ℓ-diversity": "Every group has at least ℓ different values of a sensitive column.",
    "t-closeness": "In every group the sensitive values are spread almost as in the whole table; t is the largest "
    "difference.",
    "box": "The ranges that a group of people shares: everybody in it gets the same lower and upper ends.",
    "guaranteed interval": "Numbers between which the true value of the original is certain to lie.",
    "promise": "A statement that must hold for a release. It is counted again on the released rows, and a release "
    "that breaks one is not written.",
    "no guarantee": "The method alters the table and promises nothing about privacy. What it reveals can only be "
    "measured.",
    "bundle": "The release as it is given away: the rows, what is promised about them, the report, and checksums.",
    "manifest": "The file that tells how a release was made and what it promises. It contains no cell.",
    "seed": "A number that makes a release repeatable, for tests. It is a secret: who knows it can undo random steps.",
    "holdout": "People who are kept out of a release, to see what attacks find about people who never took part.",
    "risk": "How much better people are recognised in a release than people who never took part.",
    "utility": "How well the distributions of the original are kept: 1 is the same.",
}
