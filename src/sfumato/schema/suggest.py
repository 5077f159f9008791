"""Suggest roles for columns that have none. In doubt, a column is protected.

A column that looks like an identifier gets the role identifier, and the reason is recorded. Every other column becomes
a quasi-identifier. The roles sensitive, other and weight would reduce protection, so they are never suggested; where a
column looks like one of them, the reason says so, and the user decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sfumato.schema.accents import without_accents
from sfumato.schema.columns import Column, Role
from sfumato.table.exact_numbers import LARGEST_EXACT
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import Kind

FEWEST_ROWS = 20  # with fewer cells, the number of distinct values is not informative
NEARLY_ALL = 0.9  # share of distinct cells from which nearly all count as distinct
LEAST_NUMBER = 10_000_000  # whole numbers from here on, all with as many digits and distinct, number people
DATES = (18_000_101, 21_001_231)  # but these may be dates without separators

# Endings of column names (lower-case words joined by _, without accents) that indicate an identifier of a person.
_PERSON = (
    r"id|ids|identifier|uid|uuid|guid|pid|oid|recid|seqn|caseid|subjid|subjectid|personid|patientid|userid|custid|"
    r"customerid|clientid|memberid|empid|employeeid|studentid|respid|respondentid|hhid|rowid|idno|idnr|"
    r"ssn|nin|nino|cpf|dni|nif|bsn|mrn|iban|vin|imei|passport|"
    r"e?mail|e_mail|phone|telephone|tel|mobile|fax|cellphone|telefon|"
    r"firstname|lastname|fullname|forename|surname|givenname|nickname|username|login|vorname|nachname|prenom|apellido|"
    r"address|addr|street|adresse|ip|url|signature|"
    r"(patienten|fall|aufnahme|akten|kranken|personal|kunden|konto|telefon|handy|versicherungs|versicherten|haus|steuer)"
    r"_?(nummer|nr|id)|kvnr|patnr|aktenzeichen|anschrift|strasse|handy|(patienten|familien|geburts)name|"
    r"prenoms?|nom_(de_)?(famille|naissance|jeune_fille)|nom_(du_|de_la_)?patiente?|courriel|"
    r"(n|no|num|numero)_(de_|du_|d_)?(patiente?|dossier|securite_sociale|ipp|telephone|sejour)|ipp|nir|"
    r"apellidos?|nombres?(_completo)?|direccion|correo|movil|telefono|(n|num|numero)_(de_)?(paciente|expediente|historia)|"
    r"cognome|indirizzo|codice_fiscale|sobrenome|endereco|telefone|voornaam|achternaam|telefoon|patientnummer"
)
# Names of people that are also parts of other words, so that they count only if the column has no other name.
_PERSON_ALONE = r"noms?|nome|naam|namn|adres|calle|rue"
_NUMBERED = (
    r"phone|telephone|mobile|fax|nhs|passport|account|card|licen[cs]e|security|insurance|policy|member|customer|patient|"
    r"employee|student|person|record|case|serial|row|national|tax|house|certificate|plate|beneficiary|medical"
)
NAMES_A_PERSON = re.compile(
    rf"{_PERSON_ALONE}|(^|.*_)({_PERSON}|({_NUMBERED})_(no|nr|num|nbr|number)|address_line|addr_line)"
)
# "name" means the name of a person unless one of these words precedes it, or follows it after "of".
_THINGS = (
    r"country|state|region|county|province|district|city|town|village|area|place|site|ward|department|brand|product|item|"
    r"drug|medication|disease|diagnosis|test|course|subject|category|class|type|group|variable|column|file|event|plan|"
    r"procedure|treatment|study|project|occupation|job|lab|gene|species|team|model|generic|trade|scientific|protein|"
    r"compound|ingredient|vaccine|cultivar|medicine|nation"
)
NAME = re.compile(rf"(?!(.*_)?({_THINGS})_names?$|names?_of_(the_)?({_THINGS})$)((.*_)?names?|names?_.*)")
# What many rows share has a number, too: product_id and region_id are categories if their values recur.
OF_A_THING = re.compile(
    r"(.*_)?((country|state|region|county|province|district|city|town|area|department|brand|product|item|drug|medication|"
    r"disease|diagnosis|test|course|category|class|type|group|variable|species|gene|team|occupation|job|industry|"
    r"procedure|treatment)_ids?|(gene|mutational|molecular|expression|immune)_signature)"
)
RECUR = 0.5  # share of distinct cells below which the values of a column recur
# Abbreviations that also stand for measurements, such as near infrared: a small number is no telephone or address.
AMBIGUOUS = re.compile(r"(.*_)?(nir|ipp|tel|vin|ip|nin|nino|nif|dni)")
SMALL = 1_000

# Column names of texts that people write, in which they may name anybody.
WRITTEN = re.compile(
    r"(^|.*_)(bemerkung(en)?|kommentare?|anmerkung(en)?|freitext|notiz(en)?|anamnese|arztbrief|verlauf|epikrise|"
    r"remarks?|comments?|notes?|free_?text|narrative|memo|letter|history|commentaires?|remarques?|observations?|texte|"
    r"comentarios?|observacion(es)?|notas?|commenti|osservazioni|observac(ao|oes)|opmerking(en)?)(_.*|$)"
)
# Free text: at least so many words per cell, and a share of distinct cells
WORDS, SHARE = 3.0, 0.2
WRITTEN_WORDS, WRITTEN_SHARE = 1.5, 0.02  # if the name says so

# Column names by what they look like, and the reason that is given for protecting them.
_KNOWN_TO_OTHERS = (
    r"age|sex|gender|birth|birthdate|birthday|dob|born|yob|race|ethnic|ethnicity|nationality|citizenship|country|state|"
    r"region|county|city|town|zip|zipcode|plz|postcode|postal|marital|married|education|degree|occupation|job|profession|"
    r"workclass|industry|household|religion|language|height|alter|geschlecht|edad|sexo|geburtsdatum|geburtstag|"
    r"geburtsjahr|geboren|geb|gebdat\w*|postleitzahl|wohnort|ort|stadt|gemeinde|bundesland|landkreis|beruf|familienstand|"
    r"staatsangeho(e|)rigkeit|nationalita(e|)t|konfession|gro(e|)sse|province|district|municipality|village|borough|"
    r"admit|death|died|deceased|"
    r"admission|admitted|discharge|discharged|visit|los|length_of_stay|hospital|ward|aufnahme|aufnahmedatum|entlassung|"
    r"entlassdatum|entlassungsdatum|verweildauer|liegedauer|station|klinik|krankenhaus|"
    # French, Spanish, Italian, Portuguese, Dutch
    r"sexe|genre|naissance|ne_le|nee_le|ville|commune|departement|pays|nationalite|situation_familiale|etat_civil|metier|"
    r"langue|taille|entree|sortie|hospitalisation|sejour|service|hopital|etablissement|deces|"
    r"genero|nacimiento|ciudad|municipio|provincia|pais|nacionalidad|estado_civil|ocupacion|profesion|"
    r"fecha_(de_)?ingreso|alta|estancia|"
    r"eta|sesso|genere|nascita|cap|citta|comune|nazionalita|stato_civile|professione|ricovero|dimissione|degenza|reparto|"
    r"idade|nascimento|cep|cidade|nacionalidade|profissao|internacao|"
    r"leeftijd|geslacht|geboortedatum|geboortejaar|woonplaats|gemeente|nationaliteit|beroep|opname|opnamedatum|ontslag|"
    r"ontslagdatum|afdeling"
)
_SAMPLING = (
    r"fnlwgt|pweight|fweight|finalwt|perwt|hhwt|hhwgt|pwgtp|wgtp|wtmec\w*|wtint\w*|s006|(sample|sampling|survey|person|"
    r"final|design|post_?stratification|interview|mec|population|household)_(weight|wgt|wt)s?(_\w+)?|"
    r"(weight|wgt|wt)_(sample|sampling|survey|person|final|mec|interview|int|design)\w*|pw|weights|wgt|wt"
)
_SENSITIVE = (
    r"diagnosis|diagnoses|diagnose|diag|dx|icd\d*|disease|disorder|condition|symptom|hiv|aids|cancer|depression|medication|"
    r"drug|drugs|treatment|therapy|income|salary|wage|wages|earnings|einkommen|pay|expense|expenses|expenditure|spending|"
    r"cost|costs|charge|charges|debt|wealth|asset|assets|balance|tax|taxes|credit|score|grade|conviction|arrest|"
    r"alcohol|smoker|smoking|vote|party|hauptdiagnose|nebendiagnosen?|befund|medikament|therapie|kosten|gehalt|lohn|"
    r"lab|labor|hb_?a1c|creatinine|kreatinin|cholesterol|triglycerides|glucose|h(a?e)moglobin|crp|egfr|troponin|leuko\w+|"
    # French, Spanish, Italian, Portuguese, Dutch
    r"diagnostic|diagnostico|diagnosi|cim_?\d*|cie_?10|maladie|enfermedad|malattia|doenca|ziekte|vih|medicament\w*|"
    r"traitement|tratamiento|tratamento|terapia|revenus?|salaire|ingresos|salario|sueldo|renda|reddito|stipendio|inkomen|"
    r"couts?|depenses|coste|costo|gastos|costi|custo|h?emoglobin[ae]|creatinin[ae]|colesterol|glycemie|gl[iu]cemia"
)
NOT_RECOGNISED = "not recognised, therefore protected"
LOOKS_SAMPLING = "its name is that of a sampling weight: if it is one, the role weight fits; protected until you say so"
LOOKS_SENSITIVE = (
    "its name is that of what an intruder wants to learn: if others do not know it, the role sensitive fits; "
    "protected until you say so"
)
LOOKS = (
    (re.compile(rf"({_SAMPLING})"), LOOKS_SAMPLING),
    (re.compile(rf"(^|.*_)({_SENSITIVE})(_.*|$)"), LOOKS_SENSITIVE),
    (
        re.compile(rf"(^|.*_)({_KNOWN_TO_OTHERS})(_.*|$)"),
        "its name is that of something others may know about a person",
    ),
)


def suggest(names: Sequence[str], ask: Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]) -> dict[str, Column]:
    """Suggest a role for every column, with a reason: identifier if the column looks like one, else quasi-identifier.

    ``ask(names, count_distinct)`` returns facts about the cells of these columns. Distinct values are counted only for
    columns where they matter, because counting them is expensive.
    """
    facts = dict(ask(names, False))
    facts |= ask([name for name in names if _needs_distinct(name, facts[name])], True)
    return {name: _suggested(name, facts[name]) for name in names}


def _suggested(name: str, facts: ColumnFacts) -> Column:
    reason = _why_identifier(name, facts)
    if reason:
        return Column(name=name, role=Role.IDENTIFIER, reason=reason)
    return Column(name=name, role=Role.QUASI, reason=_why_quasi(name, facts))


def _why_quasi(name: str, facts: ColumnFacts) -> str:
    """Return why the column is protected, and which role may fit better."""
    words = _words(name)
    found = next((reason for pattern, reason in LOOKS if pattern.fullmatch(words)), "")
    if found == LOOKS_SAMPLING and not (
        facts.kind in (Kind.CONTINUOUS, Kind.WHOLE) and facts.low >= 0.0 and not facts.missing
    ):
        found = ""  # a weight is a number for every row
    return found or NOT_RECOGNISED


def may_be_unknown(column: Column) -> bool:
    """Return whether a suggested quasi-identifier may be unknown to outsiders: its name is not of what they know."""
    return column.role is Role.QUASI and column.reason in (LOOKS_SENSITIVE, NOT_RECOGNISED)


def _needs_distinct(name: str, facts: ColumnFacts) -> bool:
    """Return whether the role depends on the number of distinct values."""
    if facts.present < FEWEST_ROWS:
        return False
    if facts.kind is Kind.WHOLE:
        return _is_long(facts) or _is_dense(facts) or _has_digits_of_a_number(facts) or _has_personal_name(name)
    return facts.kind in (Kind.NOMINAL, Kind.ORDERED) or _has_personal_name(name)


def _why_identifier(name: str, facts: ColumnFacts) -> str:
    """Return why the column looks like an identifier; empty if it does not."""
    if _has_personal_name(name) and not _is_yes_or_no(facts) and not _contradicts(name, facts):
        return "its name is that of a personal identifier"
    if facts.kind is Kind.TEXT:
        return "it is free text, and nearly all cells are distinct"
    if facts.present < FEWEST_ROWS:
        return ""
    if facts.kind is Kind.NOMINAL and _is_written(name, facts):
        return f"it is free text, with {facts.words:.0f} words per cell, in which people may be named"
    if facts.kind in (Kind.NOMINAL, Kind.ORDERED) and not facts.is_floating:
        distinct = facts.distinct_values
        return f"{distinct:,} of its {facts.present:,} values are distinct" if _nearly_all_distinct(facts) else ""
    return _why_numbered(facts) if facts.kind is Kind.WHOLE else ""


def _is_written(name: str, facts: ColumnFacts) -> bool:
    """Return whether people wrote the cells: several words, and not the same ones again and again."""
    by_name = WRITTEN.fullmatch(_words(name)) is not None
    words, share = (WRITTEN_WORDS, WRITTEN_SHARE) if by_name else (WORDS, SHARE)
    return facts.words >= words and facts.distinct_values >= share * facts.present


def _words(name: str) -> str:
    """Return the words of a name in lower case, without accents, joined by _: patientId → patient_id, Nº → no."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", without_accents(name))
    return re.sub(r"[\W_]+", "_", spaced.lower()).strip("_")


def _has_personal_name(name: str) -> bool:
    words = re.sub(r"(?<=[a-z])_?\d+$", "", _words(name))  # address_2 → address
    return bool(NAMES_A_PERSON.fullmatch(words) or NAME.fullmatch(words))


def _contradicts(name: str, facts: ColumnFacts) -> bool:
    """Return whether the cells tell that a column such as product_id or nir does not identify people."""
    words = _words(name)
    if OF_A_THING.fullmatch(words):
        return facts.present >= FEWEST_ROWS and facts.distinct_values < RECUR * facts.present
    return facts.kind is Kind.CONTINUOUS and facts.high < SMALL and AMBIGUOUS.fullmatch(words) is not None


def _is_yes_or_no(facts: ColumnFacts) -> bool:
    """Return whether a column such as "phone" can only state that there is one."""
    if facts.kind is Kind.BOOLEAN:
        return True
    return facts.present >= FEWEST_ROWS and facts.distinct_values <= 2


def _why_numbered(facts: ColumnFacts) -> str:
    """Return why whole numbers look like an identifier: consecutive, or too large for a quantity; else empty."""
    if _is_dense(facts) and not _is_long(facts) and facts.distinct_values == facts.present:
        return "it numbers the rows: consecutive whole numbers, all distinct"
    if _is_long(facts) and _nearly_all_distinct(facts):
        return "its whole numbers are too large for a quantity, and nearly all are distinct"
    if _has_digits_of_a_number(facts) and facts.distinct_values == facts.present:
        return f"its whole numbers have {len(str(int(facts.low)))} digits each, and all are distinct"
    return ""


def _is_long(facts: ColumnFacts) -> bool:
    return max(-facts.low, facts.high) >= LARGEST_EXACT


def _has_digits_of_a_number(facts: ColumnFacts) -> bool:
    """Return whether all whole numbers have the same number of digits, as many as record numbers have, and no date."""
    if not LEAST_NUMBER <= facts.low <= facts.high < LARGEST_EXACT:
        return False
    return len(str(int(facts.low))) == len(str(int(facts.high))) and not DATES[0] <= facts.low <= facts.high <= DATES[1]


def _is_dense(facts: ColumnFacts) -> bool:
    """Return whether the numbers between the extremes are exactly as many as the cells."""
    return facts.high - facts.low + 1 == facts.present


def _nearly_all_distinct(facts: ColumnFacts) -> bool:
    return facts.distinct_values >= NEARLY_ALL * facts.present
