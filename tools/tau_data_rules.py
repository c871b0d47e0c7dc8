"""Rules behind Tau Trainer's own data set: topics, their answers, and the sentences that ask for them.

Every answer has *instances* (what is asked about) and belongs to a topic with *phrasings* (how it is asked). For each
answer some phrasings are kept for evaluation: a held-out row asks a known fact in words that were never used for that
answer in training. The answers are spread out on purpose: after the projection to three components (profile ``tau3``)
no two of them are closer than 0.28, so that choosing the nearest answer is a fair test.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of question."""

    domain: str
    context: str
    system: str
    phrasings: tuple[str, ...]
    """Sentences with ``{x}`` for the instance."""
    facts: dict[str, str]
    """Instances of each answer, separated by ``|``."""

    def instances(self, answer: str) -> tuple[str, ...]:
        """Instances for which ``answer`` is right."""
        return tuple(text.strip() for text in self.facts[answer].split("|"))


MATH, SPELLING, GRAMMAR = "Basic Math", "Spelling", "Grammar"

TOPICS: tuple[Topic, ...] = (
    Topic(
        MATH,
        "Operations",
        "Math Tutor",
        (
            "Which operation solves this: {x}?",
            "Name the arithmetic operation in: {x}.",
            "What kind of calculation is {x}?",
            "Tell me the operation behind {x}.",
            "{x}: what do you have to do with the numbers?",
            "To work out {x}, I need which operation?",
            "Which of the four basic operations is meant by {x}?",
            "My homework says '{x}'. What is this called in math?",
            "In class we did {x}. Which operation did we practise?",
            "Which operation does {x} stand for?",
            "Say which of the basic operations you use for {x}.",
            "What is the math word for doing {x}?",
        ),
        {
            "addition": (
                "12 plus 7 | the sum of 3 and 8 | adding 40 to 15 | nine plus six | counting all the apples "
                "altogether | putting two piles together | increasing 5 by 20 | the total of 4 and 11"
            ),
            "subtraction": (
                "12 minus 7 | the difference of 9 and 4 | taking 15 away from 40 | nine minus six | finding how "
                "many apples are left | removing coins from a pile | decreasing 20 by 5 | 5 less than 30"
            ),
            "multiplication": (
                "12 times 7 | the product of 3 and 8 | multiplying 40 by 15 | nine times six | counting six boxes "
                "of eight pens each | taking a number 5 times | making 11 three times as big | 4 rows of 9 chairs"
            ),
            "division": (
                "84 divided by 7 | the quotient of 24 and 8 | dividing 40 by 5 | fifty four divided by six | "
                "sharing twelve sweets among four children | splitting a bill equally | finding a third of 27 | "
                "seeing how often 6 goes into 42"
            ),
        },
    ),
    Topic(
        MATH,
        "Shapes",
        "Math Tutor",
        (
            "What do we call {x}?",
            "Name {x}.",
            "Which word means {x}?",
            "In geometry, how is {x} called?",
            "I am thinking of {x}. What is it?",
            "Give me the math word for {x}.",
            "Complete the definition: {x} is called a ...",
            "The teacher describes {x}. What does she mean?",
            "What is the geometric name of {x}?",
            "Find the term: {x}.",
            "What is the name for {x}?",
            "Our geometry book shows {x}. How do we call it?",
        ),
        {
            "triangle": (
                "a shape with three sides | a polygon with three corners | the figure with 3 edges and 3 angles | "
                "the outline of a slice of pizza with three straight sides | a three sided figure | the shape whose "
                "angles add up to 180 degrees | half of a square cut along its diagonal | a shape with one corner "
                "fewer than a square"
            ),
            "circle": (
                "a perfectly round shape | the shape of a wheel | the figure drawn with a compass | all points at "
                "the same distance from a centre | a round flat figure without corners | the shape with a radius "
                "and a diameter | the outline of a coin | a closed curve around a middle point"
            ),
            "square": (
                "a shape with four equal sides and right angles | the figure of a chessboard field | a rectangle "
                "whose sides are all equal | a regular polygon with four corners | a flat figure with 4 equal edges "
                "| the face of a cube | a rhombus with right angles | a box drawn with four equal lines"
            ),
            "sphere": (
                "the solid shape of a ball | a perfectly round solid | the body shaped like a globe | all points in "
                "space at one distance from a centre | a three dimensional ball | the form of a planet or a marble "
                "| the solid you get by turning a circle | a round body without edges"
            ),
        },
    ),
    Topic(
        MATH,
        "Numbers",
        "Math Tutor",
        (
            "How much is {x}?",
            "Calculate {x}.",
            "What is {x}?",
            "Work out {x} and answer with one word.",
            "Please give the result of {x}.",
            "Solve {x} for me.",
            "What number do you get from {x}?",
            "The answer to {x} is what?",
            "Can you compute {x}?",
            "Write down, in a word, the value of {x}.",
            "Tell me in one word how much {x} makes.",
            "Math quiz: {x} equals what?",
        ),
        {
            "zero": (
                "seven minus seven | nine times zero | twelve minus twelve | zero times forty | thirty less thirty "
                "| zero divided by five | eight minus eight | a hundred times zero"
            ),
            "half": (
                "one divided by two | fifty percent as a fraction | two quarters | one of two equal parts | 0.5 as "
                "a fraction | four eighths in lowest terms | three sixths in lowest terms | one piece of a cake cut "
                "in two"
            ),
            "hundred": (
                "ten times ten | fifty plus fifty | a thousand divided by ten | twice fifty | twenty times five | "
                "ninety nine plus one | four times twenty five | the square of ten"
            ),
        },
    ),
    Topic(
        SPELLING,
        "Correction",
        "Spelling Checker",
        (
            "Correct the spelling: {x}.",
            "How is the word spelled right: {x}?",
            "Fix this misspelled word: {x}.",
            "Write the word correctly: {x}.",
            "Which word was meant by {x}?",
            "There is a typo in {x}. What should it be?",
            "I wrote {x}. How do you spell it properly?",
            "Spell check please: {x}",
            "What is the proper spelling of {x}?",
            "Find the mistake and give the right word: {x}.",
            "Is there an error here: {x}? Give the correct word.",
            "Please spell this word the right way: {x}.",
        ),
        {
            "dinosaur": (
                "'dinasaur' | 'dinosor' | a huge 'dinosuar' skeleton | 'dynosaur' | the extinct 'dinosar' | "
                "'dinnosaur' | a 'dinasour' with sharp teeth | 'dinosour'"
            ),
            "vegetable": (
                "'vegtable' | 'vegatable' | a green 'vegetible' | 'vegetabel' | fresh 'vegtabel' soup | 'vegitable' "
                "| a 'vegateble' like the carrot | 'veggetable'"
            ),
            "cemetery": (
                "'cemetary' | 'semetery' | graves in the 'cematery' | 'cemetry' | the old 'cemmetery' behind the "
                "church | 'semetary' | buried at the 'cematary' | 'cemitery'"
            ),
            "jewellery": (
                "'jewelery' | 'jewlery' | a ring and other 'jewellry' | 'juwellery' | gold 'jewelrey' | 'jewellrey' "
                "| a shop for 'joolery' | 'jewelary'"
            ),
            "island": (
                "'iland' | 'islnd' | a tropical 'iseland' | 'islend' | a boat to the 'ilsand' | 'eyeland' | sand "
                "and palms on the 'iland' | 'isleand'"
            ),
            "soldier": (
                "'soldeir' | 'solider' in the army | a brave 'soldior' | 'soljer' | the 'soldger' marched | "
                "'soildier' | a 'soldjer' in uniform | 'souldier'"
            ),
            "neighbour": (
                "'nieghbour' | 'neihbour' | our next door 'naybour' | 'neighbur' | my friendly 'nieghbor' | "
                "'neigbour' | the 'nayber' across the fence | 'neighboor'"
            ),
            "umbrella": (
                "'umbrela' | 'umberella' | rain, so take an 'umbrellla' | 'umbralla' | a folding 'unbrella' | "
                "'umbrellar' | open your 'umbrela' when it is wet | 'ombrella'"
            ),
            "separate": (
                "'seperate' | 'seperat' | keep them 'seprate' | 'separete' | two 'sepperate' rooms | 'separrate' | "
                "apart, that is 'seperete' | 'saperate'"
            ),
            "cough": (
                "'coff' | 'couhg' | a cold and a 'cof' | 'coughf' | a dry 'kough' | 'caugh' | sneeze and 'coff' | "
                "'cawf'"
            ),
        },
    ),
    Topic(
        GRAMMAR,
        "Parts of speech",
        "Grammar Helper",
        (
            "What part of speech is {x}?",
            "Which word class does {x} belong to?",
            "Name the part of speech: {x}.",
            "In grammar, what kind of word is {x}?",
            "Classify the word {x}.",
            "How would a grammar book label {x}?",
            "Tell me the word type of {x}.",
            "{x} is an example of which part of speech?",
            "What would you call a word like {x} in grammar?",
            "Which grammatical category fits {x}?",
            "My dictionary lists {x} as which part of speech?",
            "Say what kind of word {x} is.",
        ),
        {
            "verb": "'run' | 'write' | 'eat' | 'jump' | 'sing' | 'build' | 'swim' | 'carry'",
            "adverb": "'quickly' | 'slowly' | 'happily' | 'quietly' | 'badly' | 'carefully' | 'loudly' | 'gently'",
            "pronoun": "'she' | 'they' | 'him' | 'we' | 'it' | 'them' | 'he' | 'us'",
        },
    ),
    Topic(
        GRAMMAR,
        "Tense",
        "Grammar Helper",
        (
            "Which tense is used in '{x}'?",
            "Name the tense of this sentence: '{x}'",
            "In what time does '{x}' take place: past, present or future?",
            "Tell me the tense: '{x}'",
            "What tense do you hear in '{x}'?",
            "'{x}' When does this happen?",
            "Read '{x}' and give the tense of its verb.",
            "The verb in '{x}' has which tense?",
            "Does '{x}' speak of the past or of the future?",
            "Grammar question: '{x}' is written in which tense?",
            "Is '{x}' about something over or something to come?",
            "Decide on the tense: '{x}'",
        ),
        {
            "past": (
                "She walked home. | They played chess yesterday. | I saw a fox. | We ate soup last night. | He "
                "wrote a letter. | The train left an hour ago. | It rained last week. | You told me a story."
            ),
            "future": (
                "She will walk home. | They are going to play chess tomorrow. | I will see a fox. | We will eat "
                "soup tonight. | He will write a letter. | The train will leave in an hour. | It will rain next "
                "week. | You will tell me a story."
            ),
        },
    ),
    Topic(
        GRAMMAR,
        "Punctuation",
        "Grammar Helper",
        (
            "Which punctuation mark {x}?",
            "Name the mark that {x}.",
            "What is the sign called that {x}?",
            "In writing, which sign {x}?",
            "I need the mark that {x}. What is it?",
            "Which symbol on the page {x}?",
            "Tell me the name of the punctuation that {x}.",
            "An editor asks: what {x}?",
            "Give the word for the mark that {x}.",
            "It {x}. Which punctuation mark is it?",
            "Which sign do writers use that {x}?",
            "Grammar quiz: this mark {x}. What is its name?",
        ),
        {
            "comma": (
                "separates the items of a list | makes a short pause inside a sentence | stands before 'but' | "
                "divides two clauses | follows 'however' at the start | stands between several adjectives | sits "
                "between 'red' and 'white' in 'red, white and blue' | looks like a dot with a small tail on the "
                "line"
            ),
            "apostrophe": (
                "shows that something belongs to Anna | replaces the missing letter in 'don't' | stands in 'it's' "
                "and 'we're' | marks a contraction | shows possession | hangs above the line before an s | stands "
                "in 'the dog's tail' | shows that a letter was left out"
            ),
            "colon": (
                "introduces a list | is made of two dots, one above the other | stands between hours and minutes | "
                "announces an explanation | comes before a quotation in a play | looks like two stacked points | "
                "stands after 'as follows' | separates 12 from 30 in the time of day"
            ),
        },
    ),
    Topic(
        GRAMMAR,
        "Plural",
        "Grammar Helper",
        (
            "What is the plural of {x}?",
            "Give the plural form: {x}.",
            "One {x}, many what?",
            "How do you say more than one {x}?",
            "Put {x} into the plural.",
            "There is not one {x} but two. Which word do I use?",
            "Make this noun plural: {x}.",
            "Tell me the irregular plural of {x}.",
            "What do you call several of them: {x}?",
            "The singular is {x}. And the plural?",
            "Write the plural of {x}.",
            "If there are several, {x} becomes what?",
        ),
        {
            "people": (
                "person | kind person | tall person | single person | young person | other person | friendly person "
                "| 'person'"
            ),
            "wolves": "wolf | grey wolf | hungry wolf | lone wolf | howling wolf | young wolf | arctic wolf | 'wolf'",
            "oxen": "ox | strong ox | heavy ox | musk ox | working ox | young ox | tired ox | 'ox'",
            "feet": "foot | bare foot | left foot | cold foot | flat foot | wet foot | right foot | 'foot'",
        },
    ),
)
