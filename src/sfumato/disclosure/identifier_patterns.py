"""Words and patterns by which the 18 kinds of identifiers of the HIPAA safe harbor rule are recognised.

Patterns of names are searched anywhere in a column's name, which is first written as lower-case words joined by ``_``,
without accents, digits and plural endings (see ``column_words``). Patterns of cells are RE2 patterns.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Identifier(StrEnum):
    """The kinds of identifiers, with the letters of the rule."""

    NAME = "A names"
    PLACE = "B geographic units smaller than a state"
    DATE = "C dates, and ages over 89"
    PHONE = "D telephone numbers"
    FAX = "E fax numbers"
    EMAIL = "F e-mail addresses"
    SOCIAL_SECURITY = "G social security numbers"
    MEDICAL_RECORD = "H medical record numbers"
    HEALTH_PLAN = "I health plan numbers"
    ACCOUNT = "J account numbers"
    LICENCE = "K certificate and licence numbers"
    VEHICLE = "L vehicle identifiers and licence plates"
    DEVICE = "M device identifiers and serial numbers"
    URL = "N web addresses"
    IP = "O IP addresses"
    BIOMETRIC = "P biometric identifiers"
    PHOTO = "Q photographs of faces"
    OTHER = "R any other unique number or code"


NUMBERS = "id|no|nr|num|nbr|number|nummer|numero"
_NUMBER = rf"({NUMBERS})"
_PERSON = (
    r"patient|mother|father|parent|spouse|husband|wife|partner|child|physician|doctor|nurse|surgeon|provider|guardian|"
    r"contact|caregiver|relative|kin|employee|employer|person|subject|client|customer|participant|respondent|informant|"
    r"insured|owner|student|teacher|tenant|resident|emergency_contact|next_of_kin|paziente|paciente|mutter|vater|arzt"
)

_NUMBERED = (  # what has a number in Spanish and Portuguese; of anything else, "numero de" tells how many there are
    r"telefono|telefone|tel|movil|celular|cuenta|conta|tarjeta|paciente|historia|expediente|seguridad|seguro|"
    r"identificacion|identidad|documento|poliza|afiliado|afiliacion|pasaporte|licencia|cliente|registro|caso|serie"
)

# What a name can be of, if it is not of a person: "nom du produit", "name of drug"
_ARTICLE = r"(the|du|de|de_la|del|des|do|da)"
_OF_THINGS = (
    r"drug|product|medication|disease|test|study|country|state|brand|species|produit|medicament|maladie|marque|pays|etude|"
    r"producto|medicamento|enfermedad|marca|pais|estudio|farmaco|prodotto|malattia|produto|doenca"
)
# Phrases that identify nobody although they contain one of the words below; they are taken out of the name first.
HARMLESS = (
    r"(country|state|region|nation|brand|product|item|drug|medication|medicine|disease|diagnosis|test|course|category|"
    r"class|type|group|variable|column|file|event|plan|procedure|treatment|study|project|occupation|job|lab|gene|species|"
    r"team|model|generic|trade|scientific|protein|compound|ingredient|vaccine|cultivar|"
    r"medikament(en)?|wirkstoff|krankheit|produkt|gruppe|staat)"
    rf"_name|(name_of|nom|nombre|nome)_({_ARTICLE}_)?({_OF_THINGS})|"
    r"(urinary|gi|gastrointestinal|digestive|intestinal|respiratory|airway|genital|urogenital|reproductive|biliary)_tract|"
    r"initial_(diagnosis|stage|grade|severity|treatment|therapy|response|symptom|presentation|condition|complaint|"
    r"assessment|finding|outcome|status|rhythm|imaging|regimen|drug|dose|value|score|result)|street_drug|ward_round|"
    r"(gene|mutational|molecular|expression|immune)_signature|state_(fips|code|id)|birth_(weight|order|length|rate|control|defect|outcome|interval|country|state)|"
    r"(country|state)_of_birth|gestational_age|(pregnancy|menarche)_age|cell_(count|type)|t_cell|blood_cell|"
    r"(admission|discharge)_(type|source|status|disposition|diagnosis)|(zip|address|phone|email)_(type|status)|"
    r"ip_visit|home_(owner|ownership)|test_date_count|insurance_type|vehicle_type|mobile_home"
)
# With one of these words, a column of numbers is a count, a duration or a measurement.
MEASURES = (
    rf"number_of|num_of|no_of|nr_of|n_of|nombre_de|numero_de(?!_({_NUMBERED}))|"
    r"anzahl|count|total|sum|mean|avg|average|median|sd|std|rate|"
    r"ratio|pct|percent|percentage|share|proportion|score|index|scale|level|size|population|density|distance|duration|"
    r"length|los|minute|minutes|hour|hours|days|weeks|months|years|income|salary|wage|cost|costs|price|amount|fee|bill|"
    r"expense|charge|charges|payment|balance|kg|lb|cm|mm|mg|dl|ml|per|visits|calls|quality|satisfaction|rank|weight|wt|height|ht|bmi|"
    r"pulse|bp|sbp|dbp|map|systolic|diastolic|pressure|hr|heart|temperature|temp|glucose|cholesterol|hdl|ldl|"
    r"triglycerides|hemoglobin|creatinine|platelet|sodium|potassium|albumin|ferritin|egfr|gfr|spo|saturation|oxygen|"
    r"dose|grade|mark|points|iq|gpa|test|lab|result|value|changes|cells|width|volume|frequency|freq|speed|loss|gain|"
    r"waist|hip|circumference|hematocrit|steps|calories|cigarettes|drinks|packs|rooms|floors|visit_count|age_score|"
    r"gewicht|groesse|laenge|dauer|puls|blutdruck|einkommen|gehalt|kosten|preis|summe|mittelwert|anteil|wert|stunden|"
    r"poids|taille|duree|revenu|salaire|prix|peso|altura|talla|duracion|ingresos|salario|precio|temperatura|"
    r"measure|measurement|reading|messung|messwert|mesure|medida|medicion|vitesse|velocidad|geschwindigkeit|tension|"
    r"presion|mpg|sqm|noise|beds|recall"
)
# With one of these words, a column of a few texts is about the type or the status of something.
KINDS = (
    r"type|status|category|class|kind|level|group|size|quality|preference|satisfaction|access|availability|use|used|"
    r"modality|frequency|pattern|laterality|taille"
)


# Patterns of names, most specific first. A column with such a name is removed.
NAMED: tuple[tuple[Identifier, str], ...] = (
    (Identifier.EMAIL, r"e_?mail|courriel|correo|epost"),
    (Identifier.FAX, r"fax|telefax"),
    (
        Identifier.PHONE,
        rf"phone|telephone|contact_{_NUMBER}|tel|mobile|cell_{_NUMBER}|cellular|telefon|telefono|telefone|telefoon|handy|portable|"
        r"celular|cellulare|movil|mobil|mobilnummer|rufnummer|telefonnummer|tlf|gsm|whatsapp|beeper|pager",
    ),
    (
        Identifier.SOCIAL_SECURITY,
        r"ssn|social_security|soc_sec|securite_sociale|seguridad_social|sozialversicherungsnummer|svnr|nino|nhs|cpf|dni|"
        r"nif|bsn|pesel|personnummer|codice_fiscale|national_id|national_insurance|cedula|tax_id|steuernummer|steuer_id|"
        r"nss|secu|niss|insee|ahv|avs|curp|rentenversicherungsnummer|krankenversicherungsnummer",
    ),
    (
        Identifier.MEDICAL_RECORD,
        rf"mrn|medical_record|med_rec|hosp(ital)?_{_NUMBER}|health_record|chart_{_NUMBER}|(patient|case|record|subject)_{_NUMBER}|"
        r"patientennummer|fallnummer|aktenzeichen|(pt|pat|subj|case)id|nhc|historia_clinica|expediente|"
        rf"{_NUMBER}_(de_|du_|del_)?(patient|paciente|paziente|dossier|historia|caso)",
    ),
    (
        Identifier.HEALTH_PLAN,
        rf"(health_plan|beneficiary|member|policy|subscriber|insurance|insured|medicare|medicaid)_{_NUMBER}|"
        r"versichertennummer|krankenkassennummer|kvnr|hicn|mbi",
    ),
    (
        Identifier.ACCOUNT,
        rf"(account|acct|credit_card|debit_card|card|customer|client|konto)_{_NUMBER}|iban|kundennummer|kontonummer|"
        rf"{_NUMBER}_(de_|du_|del_)?(client|cliente|compte|cuenta|conta|tarjeta|carte)",
    ),
    (
        Identifier.LICENCE,
        rf"(licen[cs]e|certificate|permit|dea)_{_NUMBER}|driver_licen[cs]e|passport|pasaporte|reisepass|ausweis|npi",
    ),
    (
        Identifier.VEHICLE,
        rf"vin|vehicle_{_NUMBER}|(licen[cs]e|number)_plate|plate_{_NUMBER}|kennzeichen|immatriculation",
    ),
    (Identifier.DEVICE, rf"(device|serial|implant)_{_NUMBER}|imei|imsi|mac_addr(ess)?|udi|serial"),
    (Identifier.URL, r"url|uri|website|web_(page|site|address)|webpage|homepage|facebook|twitter|instagram|linkedin"),
    (Identifier.IP, r"ip|ip_addr(ess)?|ipv|hostname"),
    (Identifier.BIOMETRIC, r"finger_?print|voice_?print|retina(_scan)?|iris_scan|face_?id|biometric"),
    (Identifier.PHOTO, r"photo|photograph|portrait|face_image|image|picture|selfie|avatar|foto"),
    (
        Identifier.NAME,
        r"name|(patient|first|last|middle|full|given|family)_nm|lname|fname|mname|surname|lastname|firstname|forename|nickname|username|login|alias|maiden|initial|"
        r"signature|vorname|nachname|familienname|geburtsname|rufname|zuname|nom|prenom|nombre|apellido|cognome|nome|sobrenome|naam|"
        r"voornaam|achternaam|namn|fornamn|efternamn|imie|nazwisko",
    ),
    (
        Identifier.PLACE,
        r"street|address|addr|apt|apartment|geoid|city|town|township|county|precinct|district|borough|ward|parish|village|municipality|"
        r"hometown|neighbou?rhood|census_tract|tract|block_group|census_block|geo_?code|geo_?hash|zcta|fips|puma|msa|cbsa|"
        r"lsoa|msoa|adresse|anschrift|strasse|hausnummer|house_(no|nr|num|number)|plz|postleitzahl|ort|wohnort|stadt|"
        r"gemeinde|landkreis|kreis|geburtsort|ortsteil|stadtteil|stadtbezirk|quartier|arrondissement|localite|localidad|domicilio|rue|ville|commune|code_postal|direccion|calle|ciudad|municipio|codigo_postal|"
        r"barrio|indirizzo|citta|comune|endereco|rua|cidade|bairro|cep|adres|straat|woonplaats|gemeente|adress|gata|"
        r"postnummer|postort|ulica|miasto|kod_pocztowy",
    ),
    (
        Identifier.PLACE,
        r"lat|latitude|lon|lng|longitude|latlon|latlng|lat_(lon|long|lng)|coord|coordinate|gps|easting|northing|geo_point|"
        r"breitengrad|laengengrad",
    ),
)
# Words among them that have other meanings: wine, grams per square metre, a mobile app, serial dilution, inpatient.
AMBIGUOUS = (
    r"vin|gsm|portable|mobile|mobil|movil|handy|cellular|pager|mbi|nss|udi|avs|ahv|secu|nhs|ip|serial|npi|nif|dni|nino|"
    r"bsn|cep|ort"
)
# Patterns of names that leave a question: a person must say what the column contains.
DOUBTFUL: tuple[tuple[Identifier, str], ...] = (
    (
        Identifier.NAME,
        rf"^((full|primary|attending|referring)_)?({_PERSON})$|handle|screen_name|employer|company|"
        r"^(first|last|middle|given|family|full|nm|subscriber|beneficiary)$",
    ),
    (Identifier.PHONE, r"^(cell|ph)$"),
    (
        Identifier.PLACE,
        r"birth_?place|place_of_birth|pob|residence|domicile|location|geo|place|area_code|school|hospital|"
        r"facility|clinic|community|bezirk|lieu|departement|departamento|provincia|canton|kanton|poblacion|cty|^cp$",
    ),
    (
        Identifier.OTHER,
        r"note|comment|remark|narrative|free_?text|memo|message|transcript|bemerkung|kommentar|anmerkung|"
        r"comentario|observacion|commentaire|remarque|specify|verbatim",
    ),
    (Identifier.OTHER, rf"nummer|chart|matricule|matricula|dossier|numero_de_({_NUMBERED})"),
)
ZIP_NAMES = r"zip|zip_?code|zcta|post(al)?_?code"
AGE_NAMES = (
    r"^(years|yrs)$|age|alter|lebensalter|altersklasse|edad|idade|leeftijd|alder|wiek|eta|years_old|yrs_old|ageyr|agegrp|"
    r"agecat|altersgruppe"
)
AGE_UNITS = r"days|months|weeks|hours|day|month|week|mos|wks"
BIRTH_NAMES = (
    r"birth|born|dob|yob|birthday|bday|birthdate|birthyear|geburtsdatum|geburtstag|geburtsjahr|geboren|naissance|nacimiento|"
    r"nascita|nascimento|nac|geb|geboortedatum|geboortejaar|fodelsedatum|fodelsear|urodzenia"
)
SINCE_BIRTH = r"since_birth|from_birth|birth_to|age_in_days|age_days"
_STAY = (
    r"admission|admit|admitted|adm|discharge|disch|death|died|dod|aufnahme|entlassung|sterbe|sortie|entree|ingreso|alta|"
    r"deces|muerte|morte"
)
_EVENT = (
    r"visit|encounter|surgery|operation|diagnosis|dx|onset|exam|examination|interview|event|hire|enrollment|enrolment|"
    r"procedure|service|injury|accident|marriage|wedding|appointment|arrival|departure"
)
_PART = (
    r"month|mon|mth|day|dy|week|weekday|dow|doy|monat|tag|mois|jour|mes|dia|mese|giorno|maand|dag|quarter|qtr|ym|mmdd|"
    r"day_of_(week|month|year)"
)
YEAR_NAMES = r"year|yr|jahr|annee|ano|anno|jaar|ar|rok"
DATE_NAMES = (
    r"date|datum|fecha|dt|dob|dod|doa|timestamp|datetime|birthday|birthdate|mmddyyyy|ddmmyyyy|yyyymmdd|yymmdd|"
    r"geburtsdatum|geburtstag|geboortedatum|fodelsedatum|aufnahmedatum|entlassungsdatum|sterbedatum|todestag"
)
# could be dates, or something else
STAY_NAMES = (
    rf"^({_STAY}|{BIRTH_NAMES})$|({_STAY}|{_EVENT})_(on|at|time|ts)|"
    rf"time_of_({_STAY}|{BIRTH_NAMES})"
)
PART_OF_STAY = rf"({_STAY}|{BIRTH_NAMES})_(of_)?({_PART})|({_PART})_(of_)?({_STAY}|{BIRTH_NAMES})|geburtsmonat"
PART_OF_DATE = rf"{_PART}"

# Words into which names without separators are divided, such as homephone and dateofbirth.
_JOINED = (
    "home work cell phone number code date birth day month year years months days time of at in the first last "
    "middle full given family maiden name patient mother father email mail address street city town county zip "
    "postal residence age group admission admit discharge death medical record account card license licence plate "
    "policy member insurance social security fax contact emergency person employee employer customer client student "
    "subject user spouse web site page house tract block district place hospital doctor physician visit birthday "
    "since rid yrs tel"
)
_PLURALS = "days weeks months years hours minutes visits calls cells charges costs changes address"
# also the words of the patterns that end in s: without it, they would never be found
KEPT_PLURALS = frozenset(_PLURALS.split()).union(re.findall(r"[a-z]{3,}s\b", f"{MEASURES}|{HARMLESS}"))
_PATTERNS = [AGE_NAMES, BIRTH_NAMES, DATE_NAMES, _STAY, *(patterns for _, patterns in (*NAMED, *DOUBTFUL))]
# German names are written as one word, and many others are shortened: Entlassungstag, patzip. A word ends in these.
ENDINGS = ("nummer", "monat", "tag", "zipcode", "zip", "phone", "date", "name", "dob")
_WHOLE_WORDS = (
    "candidate mandate validate invalidate update consolidate sedate liquidate accommodate elucidate intimidate "
    "inundate oxidate predate antedate smartphone headphone microphone saxophone xylophone unzip gzip montag dienstag "
    "donnerstag freitag samstag sonntag mittag vormittag nachmittag alltag hashtag"
)
UNDIVIDED = frozenset(_WHOLE_WORDS.split())
VOCABULARY = frozenset(_JOINED.split()).union(*(re.findall(r"[a-z]{4,}", patterns) for patterns in _PATTERNS))
VERSIONS = "version|firmware"  # 10.2.2020 may be one of them instead of a date
SHORT_ENDINGS = frozenset({"id", "no", "nr", "dt", "yr", "nm"})

_AMERICAN_PHONE = r"(\+?1[ .-]?)?(\([2-9]\d{2}\) ?|[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}"
EUROPEAN_PHONE = r"(0\d{1,4} ?[/ -] ?\d{5,9}|0\d([ .-]\d{2}){4}|[6-9]\d{2}[ .-]\d{3}[ .-]\d{3}|[6-9]\d{2}( \d{2}){3})"
# Patterns that nearly all cells must match.
LOOKS: tuple[tuple[Identifier, str], ...] = (
    (Identifier.EMAIL, r"^\s*[^@\s]+@[^@\s]+\.[A-Za-z]{2,}\s*$"),
    (
        Identifier.URL,
        r"(?i)^(https?://|ftp://|www\.)\S+$|^[a-z0-9-]+(\.[a-z0-9-]+)*\.(com|org|net|edu|gov|de|uk|io)(/\S*)?$",
    ),
    (Identifier.DEVICE, r"^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"),
    (Identifier.IP, r"^(\d{1,3}\.){3}\d{1,3}$|^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){3,7}$"),
    (Identifier.SOCIAL_SECURITY, r"^\d{3}[- ]\d{2}[- ]\d{4}$"),
    (
        Identifier.PHONE,
        rf"^{_AMERICAN_PHONE}$|^(\+|00)\d[\d ()./-]{{6,17}}\d$|^{EUROPEAN_PHONE}$",
    ),
    (Identifier.VEHICLE, r"^[A-HJ-NPR-Z0-9]{17}$"),
    (Identifier.ACCOUNT, r"^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$|^(\d{4}[ -]){3}\d{4}$"),
    (
        Identifier.PLACE,
        r"(?i)^\d+ .*\b(street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|way|place|pl|terrace)\b|"
        r"(stra(ss|ß)e|str\.|weg|platz|allee|gasse) ?\d+|^\d+,? (rue|avenue|boulevard|via|calle) |"
        r"^(calle|via|rua|av\.) .*\d|^p\.? ?o\.? box \d",
    ),
    (Identifier.PLACE, r"^\(?-?\d{1,2}\.\d{3,}°?\s*[NS]?[,; ]\s*-?\d{1,3}\.\d{3,}°?\s*[EW]?\)?$|^(?i)point ?\("),
    (Identifier.PLACE, r"^\d{5}-\d{4}$|^[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}$|^[A-Z]\d[A-Z] ?\d[A-Z]\d$"),
)
_MONTH = (
    r"((jan|feb|f[eé]v|m[aä]r|apr|avr|abr|ma[yi]|jui?n|jui?l|aug|ao[uû]|ago|sep|o[ckt]t|nov|de[cz]|d[eé]c|ene|dic)"
    r"[a-zé]*)\.?"
)
_MONTHS = (  # whole names, because many words begin as months do
    r"janvier|f[eé]vrier|mars|avril|juin|juillet|ao[uû]t|septembre|octobre|novembre|d[eé]cembre|enero|febrero|marzo|abril|"
    r"mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno|luglio|"
    r"settembre|ottobre|dicembre"
)
_WEEKDAYS = (
    r"lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo|"
    r"montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
)
# Dates with a four-digit year, of which the year can be kept, and all others
FULL_DATES = (
    r"(?i)^(18|19|20)\d{2}[-/.](0?[1-9]|1[0-2])([-/.]\d{1,2}([ T].*)?)?$|"
    rf"^(\pL+\.?,? )?\d{{1,2}}[-/.]\d{{1,2}}[-/.](18|19|20)\d{{2}}( .*)?$|^(0?[1-9]|1[0-2])[-/.](18|19|20)\d{{2}}$|"
    rf"^\d{{1,2}}\.?([ -]|er | de )?{_MONTH}([ ,-]*| de )(18|19|20)\d{{2}}$|"
    rf"^{_MONTH}[ -](\d{{1,2}},?[ -])?(18|19|20)\d{{2}}$|"
    r"^(18|19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(T?\d{4,6}Z?)?$|^(18|19|20)\d{2}[- ]?[wq]\d{1,2}$|"
    r"^(0?[1-9]|[12]\d|3[01])(0[1-9]|1[0-2])(18|19|20)\d{2}$|^(0?[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(18|19|20)\d{2}$"
)
YEAR_AND_MONTH = r"^(18|19|20)\d{2}(0[1-9]|1[0-2])$|^(18|19|20)\d{2}-[0-3]\d{2}$"  # or the day of the year
SHORT_DATES = (
    r"(?i)^\d{1,2}[-/.]\d{1,2}[-/.]\d{2}$|^\d{1,2}\.\d{1,2}\.$|"
    rf"^\d{{1,2}}\.?[ -]{_MONTH}([ -]\d{{2}})?$|^{_MONTH} \d{{1,2}}$"
)
DATE_PARTS = (
    r"^((?i:(jan|feb|m[aä]r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zé]*\.?)|"
    rf"(?i:(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?)|(?i:{_MONTHS}|{_WEEKDAYS})|Mo|Di|Mi|Do|Fr|Sa|So)$"
)
# Patterns that need to occur in one cell only: text that contains an identifier.
_GIVEN = (
    "James John Robert Michael William David Richard Joseph Thomas Charles Christopher Daniel Matthew Anthony Mark "
    "Donald Steven Paul Andrew Joshua Kenneth Kevin Brian George Edward Ronald Timothy Jason Jeffrey Ryan Jacob "
    "Gary Nicholas Eric Jonathan Stephen Larry Justin Scott Brandon Benjamin Samuel Gregory Frank Alexander Raymond "
    "Patrick Jack Dennis Jerry Mary Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Lisa Nancy "
    "Betty Margaret Sandra Ashley Kimberly Emily Donna Michelle Carol Amanda Melissa Deborah Stephanie Rebecca "
    "Sharon Laura Cynthia Kathleen Amy Angela Shirley Anna Ann Anne Brenda Pamela Emma Nicole Helen Samantha "
    "Katherine Christine Debra Rachel Carolyn Janet Catherine Maria Heather Diane Ruth Julie Olivia Joyce Jane Bob "
    "Bill Jim Tom Joe Mike Peter Hans Klaus Jürgen Wolfgang Stefan Andreas Ursula Sabine Monika Petra Jean Pierre "
    "Marie Luc Juan Jose José Carlos Luis Carmen Ana Giuseppe Marco Giulia João Pedro Ahmed Mohammed Mohamed Fatima "
    "Wei Ming Priya Raj Anita Ivan Olga Sofia Lucas Noah Liam Mia Lukas Leon Felix Jonas Lena Lea Hannah Emilia Finn "
    "Elias Heike Birgit Renate Gisela Helga Ingrid Uwe Jens Dieter Günter Heinz Horst Manfred Gerhard Elif Aylin "
    "Mehmet Mustafa Ayse Camille Chloé Léa Manon Théo Hugo Jules Louis Gabriel Isabelle Nathalie Philippe Michel "
    "François Jacques Álvaro Lucía Iker Javier Miguel Manuel Antonio Francisco Alejandro Pablo Diego Sergio Marta "
    "Isabel Pilar Francesca Chiara Alessandro Matteo Luca Giovanni Piotr Jan Krzysztof Agnieszka Katarzyna"
)
_SURNAMES = (
    "Smith Johnson Williams Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson "
    "Taylor Moore Jackson Martin Lee Perez Thompson Harris Sanchez Clark Ramirez Lewis Robinson Walker Allen Wright "
    "Torres Nguyen Hill Flores Adams Nelson Baker Hall Rivera Campbell Mitchell Carter Roberts Gomez Phillips Evans "
    "Turner Diaz Parker Cruz Edwards Collins Reyes Stewart Morris Morales Murphy Cook Rogers Gutierrez Ortiz Morgan "
    "Cooper Peterson Bailey Reed Kelly Howard Ramos Kim Cox Ward Richardson Watson Brooks Chavez Wood Bennett "
    "Mendoza Ruiz Hughes Alvarez Castillo Sanders Patel Myers Ross Foster Jimenez Müller Mueller Schmidt Schneider "
    "Fischer Weber Meyer Wagner Becker Schulz Hoffmann Bernard Dubois Durand Rossi Russo Ferrari Silva Santos Singh "
    "Kumar Wang Li Zhang Chen Tanaka Sato Suzuki Doe Bauer Koch Richter Wolf Klein Schröder Neumann Zimmermann Krüger "
    "Hofmann Hartmann Lange Werner Krause Lehmann Köhler Huber Maier Fuchs Vogel Keller Scholz Brandt Yilmaz Kaya "
    "Öztürk Nowak Kowalski Wiśniewski Lefèvre Moreau Laurent Simon Garnier Fournier Girard Bonnet Dupont Fernández "
    "González Rodríguez Pérez Sánchez Gómez Muñoz Álvarez Romero Navarro Núñez Ibáñez Vidal Bianchi Romano Colombo "
    "Ricci Ferreira Pereira Oliveira Costa Jansen Bakker Visser Johansson Andersson Hansen Nielsen"
)
KNOWN_NAMES = frozenset((_GIVEN + " " + _SURNAMES).lower().split())
CONTAINED: tuple[tuple[Identifier, str], ...] = (
    (Identifier.EMAIL, r"[\w.+-]+@[\w-]+\.[A-Za-z]{2,}"),
    (Identifier.SOCIAL_SECURITY, r"\b\d{3}-\d{2}-\d{4}\b"),
    (
        Identifier.PHONE,
        rf"(^|[^\d-])({_AMERICAN_PHONE}|{EUROPEAN_PHONE})($|[^\d-])|\+\d{{2}}[\d ()/-]{{7,}}\d|"
        r"(?i:\b(tel|telefon|telephone|phone|mobile?|fon|handy|call)\b[.:]? ?\d[\d ./-]{4,}\d)",
    ),
    (Identifier.URL, r"https?://|www\.[a-z0-9]"),
    (
        Identifier.DATE,
        r"\s(on|am|le|el|at) \d{1,2}[/.-]\d{1,2}([/.-]\d{2,4})?\b|"
        r"\pL{2}.*\b(\d{1,2}[/.-]\d{1,2}[/.-](19|20)\d{2}|(19|20)\d{2}[/.-]\d{1,2}[/.-]\d{1,2})\b",
    ),
    (Identifier.PLACE, r"\b\d{1,5} (\p{Lu}\p{Ll}+ ){1,3}(Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Drive)\b"),
    (Identifier.PLACE, r"\p{Lu}\pL+(stra(ss|ß)e|str\.) ?\d|\b\d{1,4},? (bis )?(rue|avenue|boulevard|calle|via) \pL"),
    (
        Identifier.MEDICAL_RECORD,
        r"(?i)\b(mrn|ssn|record|patient|case|pat|fall|dossier|account|policy)[ .-]*(id|no|nr|number|nummer|#)?[ .:#-]*"
        r"\d{5,}\b",
    ),
    (Identifier.NAME, r"\b(Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau|Mme|Sra?|Sig)\.? [A-Z][a-z]+"),
    (Identifier.NAME, rf"\b({'|'.join(_GIVEN.split())}) ([A-Z]\. )?[A-Z][a-z]+"),
)
_CAPITAL = r"(\p{Lu}[\p{Ll}'’-]+|\p{Lu}['’]?\p{Lu}[\p{Ll}\p{Lu}'’-]+)"
PERSON = rf"^((Mr|Mrs|Ms|Dr|Prof)\.? )?{_CAPITAL},? (\p{{Lu}}\.? )?{_CAPITAL}(,? (Jr|Sr|II|III)\.?)?$"
ZIP = r"^\d{5}(-?\d{4})?$"
_YES_AND_NO = "0 1 2 yes no y n true false t f ja nein j oui non o si sí sim não nao x - + present absent"
YES_OR_NO = frozenset(_YES_AND_NO.split())
OPEN_AGE = r"(?i)(\+|>|≥|over|above|older|plus|and|more|up|ueber|über|ab|mas|más|plus)"
AGE_CELL = r"^\D*?(?P<low>\d{1,3})(?:\.\d+)?(?:\D+?(?P<high>\d{1,3})(?:\.\d+)?)?\D*$"
