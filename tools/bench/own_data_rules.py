"""Content of the generated data sets: topics, facts, and wordings of each kind of row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of question."""

    domain: str
    wordings: tuple[str, ...]
    """Sentences with ``{x}`` for the subject: :data:`TRAINED`, :data:`TUNING`, :data:`REPORTED`."""
    facts: str
    """``answer: subject, subject; answer: ...``"""

    def subjects(self) -> dict[str, tuple[str, ...]]:
        """Subjects by answer."""
        pairs = [fact.split(":") for fact in self.facts.split(";")]
        return {answer.strip(): tuple(one.strip() for one in subjects.split(",")) for answer, subjects in pairs}


TRAINED, TUNING, REPORTED = slice(0, 6), slice(6, 9), slice(9, 12)
"""Wordings of each topic in training rows, in held-out rows that choose settings, and in those that are reported.

Sets share their wordings and most of their facts, so reported rows need wordings that no choice depended on.
"""

TRAINED_OPENINGS = ("", "Please tell me: ", "A question: ", "Help me with this. ")
TUNING_OPENINGS = ("I would like to know: ", "Quickly now. ", "For my homework: ")
REPORTED_OPENINGS = ("My sister asks: ", "One more thing. ", "Out of curiosity: ")

TOPICS = (
    Topic(
        "Kinds",
        (
            "what kind of thing is {x}?",
            "what is {x} an example of?",
            "which group does {x} belong to?",
            "name the category of {x}.",
            "in one word, what is {x}?",
            "how would you classify {x}?",
            "{x} is a sort of what?",
            "under which heading do I look up {x}?",
            "what would a child call {x}, in general?",
            "what type of thing do people mean by {x}?",
            "what do we call things such as {x}?",
            "if I sort {x} into a box, what is written on it?",
        ),
        "flower: a rose, a tulip, a daisy, a violet, a lily; tree: an oak, a birch, a willow, a pine, a maple; "
        "bird: a sparrow, an eagle, a robin, an owl, a gull; fish: a trout, a salmon, a pike, a carp, a herring; "
        "insect: an ant, a wasp, a beetle, a moth, a cricket; metal: iron, copper, silver, zinc, tin; "
        "fruit: an apple, a plum, a pear, a cherry, a mango; tool: a hammer, a saw, a chisel, a wrench, pliers; "
        "colour: scarlet, turquoise, crimson, beige, indigo; planet: Mars, Venus, Saturn, Neptune, Jupiter; "
        "instrument: a violin, a trumpet, a flute, a cello, a harp; vehicle: a lorry, a bus, a van, a tractor, a tram; "
        "drink: lemonade, tea, cocoa, juice, coffee; gas: helium, oxygen, neon, hydrogen, argon; "
        "garment: a shirt, a coat, a skirt, a sweater, a scarf; game: chess, draughts, poker, dominoes, bridge; "
        "dance: a waltz, a tango, a polka, a rumba, a foxtrot; gem: a ruby, an emerald, a sapphire, a topaz, an opal; "
        "spice: pepper, cinnamon, nutmeg, saffron, cumin; disease: measles, malaria, cholera, mumps, influenza; "
        "snake: a cobra, an adder, a python, a viper, a boa; dog: a poodle, a terrier, a spaniel, a beagle, a boxer; "
        "cheese: cheddar, brie, gouda, feta, parmesan; boat: a canoe, a kayak, a yacht, a ferry, a raft; "
        "bread: a bagel, a baguette, a bun, a pretzel, a roll; weapon: a sword, a spear, a cannon, a rifle, a dagger; "
        "furniture: a table, a sofa, a wardrobe, a chair, a desk; month: June, October, March, August, January",
    ),
    Topic(
        "Capitals",
        (
            "what is the capital of {x}?",
            "which city is the capital of {x}?",
            "name the capital city of {x}.",
            "where does the government of {x} sit?",
            "the capital of {x} is called what?",
            "give me the capital that {x} has.",
            "if I travel to {x}, which city is its capital?",
            "from which city is {x} ruled?",
            "the chief city of {x}?",
            "where do I find the parliament of {x}?",
            "{x} has which capital?",
            "in which city do ambassadors to {x} live?",
        ),
        "Paris: France; Berlin: Germany; Madrid: Spain; Rome: Italy; Lisbon: Portugal; Vienna: Austria; "
        "Athens: Greece; Warsaw: Poland; Prague: Czechia; Budapest: Hungary; Oslo: Norway; Stockholm: Sweden; "
        "Helsinki: Finland; "
        "Copenhagen: Denmark; Dublin: Ireland; London: England; Brussels: Belgium; Bern: Switzerland; Sofia: Bulgaria; "
        "Bucharest: Romania; Belgrade: Serbia; Zagreb: Croatia; Kyiv: Ukraine; Moscow: Russia; Ankara: Turkey; "
        "Cairo: Egypt; Nairobi: Kenya; Accra: Ghana; Rabat: Morocco; Tunis: Tunisia; Tokyo: Japan; Beijing: China; "
        "Seoul: South Korea; Hanoi: Vietnam; Bangkok: Thailand; Manila: the Philippines; Jakarta: Indonesia; "
        "Delhi: India; Kabul: Afghanistan; Tehran: Iran; Baghdad: Iraq; Riyadh: Saudi Arabia; Ottawa: Canada; "
        "Havana: Cuba; Lima: Peru; Quito: Ecuador; Bogota: Colombia; Caracas: Venezuela; Santiago: Chile; "
        "Canberra: Australia; Wellington: New Zealand; Reykjavik: Iceland; Riga: Latvia; Vilnius: Lithuania; "
        "Amsterdam: the Netherlands; Tallinn: Estonia; Minsk: Belarus; Doha: Qatar; Amman: Jordan; Damascus: Syria; "
        "Kampala: Uganda; Dakar: Senegal",
    ),
    Topic(
        "Past tense",
        (
            "what is the past tense of {x}?",
            "put {x} into the past.",
            "today I {x}; yesterday I what?",
            "how do you say {x} in the simple past?",
            "give the past form of the verb {x}.",
            "which form of {x} do I use for yesterday?",
            "last week, instead of {x}, what do I write?",
            "turn {x} into something that is over.",
            "the verb {x}, a year ago?",
            "we {x} every day; what did we do in 1990?",
            "if I {x} now, what did I do back then?",
            "how does {x} change when it has happened already?",
        ),
        "went: go; saw: see; took: take; gave: give; wrote: write; ran: run; swam: swim; sang: sing; drank: drink; "
        "ate: eat; slept: sleep; bought: buy; brought: bring; thought: think; caught: catch; taught: teach; flew: fly; "
        "grew: grow; knew: know; threw: throw; drew: draw; broke: break; spoke: speak; chose: choose; drove: drive; "
        "rode: ride; rose: rise; fell: fall; felt: feel; kept: keep; left: leave; met: meet; sent: send; spent: spend; "
        "built: build; lost: lose; made: make; paid: pay; said: say; sold: sell; told: tell; stood: stand; won: win; "
        "wore: wear; woke: wake; hid: hide; bit: bite; froze: freeze; stole: steal; shook: shake; forgot: forget; "
        "sank: sink; struck: strike; hung: hang",
    ),
    Topic(
        "Opposites",
        (
            "what is the opposite of {x}?",
            "which word means the contrary of {x}?",
            "not {x} but what?",
            "name the antonym of {x}.",
            "the reverse of {x} is what?",
            "give me a word that is opposed to {x}.",
            "if it is by no means {x}, it is what?",
            "turn {x} around.",
            "what would you be if you were anything but {x}?",
            "{x} is one extreme; which is the other?",
            "swap {x} for what it is furthest from.",
            "which word stands against {x}?",
        ),
        "cold: hot, warm; short: long, tall; slow: fast, quick; poor: rich, wealthy; weak: strong, powerful; "
        "sad: happy, cheerful; dark: bright, light; empty: full, filled; dirty: clean, washed; quiet: loud, noisy; "
        "ugly: beautiful, pretty; old: young, new; dry: wet, soaked; closed: open, opened; hard: soft, tender; "
        "wrong: right, correct; thin: thick, fat; narrow: wide, broad; shallow: deep, profound; stupid: clever, smart; "
        "cowardly: brave, courageous; lazy: busy, diligent; late: early, punctual; cheap: dear, expensive; "
        "rough: smooth, even; blunt: sharp, pointed; sour: sweet, sugary; dead: alive, living; enemy: friend, ally; "
        "hate: love, adore; tiny: huge, giant; dangerous: safe, harmless; "
        "guilty: innocent, blameless; foreign: native, local; absent: present, attending; sick: healthy, well",
    ),
    Topic(
        "Plural",
        (
            "what is the plural of {x}?",
            "one {x}, two what?",
            "how do you write more than one {x}?",
            "put the noun {x} into the plural.",
            "many of them: {x} becomes what?",
            "give the plural form of {x}.",
            "I have a {x} and get another; now I have what?",
            "a whole group of the word {x}?",
            "several, not a single {x}, are called what?",
            "there is a {x} here and a {x} there; together they are two what?",
            "how does the word {x} change when there are ten?",
            "a dozen instead of one {x}: a dozen what?",
        ),
        "mice: mouse; geese: goose; feet: foot; teeth: tooth; men: man; women: woman; children: child; oxen: ox; "
        "people: person; wolves: wolf; knives: knife; leaves: leaf; loaves: loaf; lives: life; wives: wife; "
        "halves: half; shelves: shelf; thieves: thief; cacti: cactus; fungi: fungus; crises: crisis; oases: oasis; "
        "criteria: criterion; phenomena: phenomenon; potatoes: potato; heroes: hero; echoes: echo; cities: city; "
        "ladies: lady; babies: baby; boxes: box; churches: church; dishes: dish; buses: bus; calves: calf; elves: elf",
    ),
    Topic(
        "Sums",
        (
            "how much is {x}?",
            "what is {x}?",
            "work out {x}.",
            "calculate {x} for me.",
            "{x} makes what?",
            "what number do you get from {x}?",
            "I have {x}; how many is that altogether?",
            "the result of {x}, in a word?",
            "solve {x}.",
            "what does {x} come to?",
            "type {x} into a calculator; what does it show?",
            "{x} equals which number?",
        ),
        "three: one plus two, four minus one; four: two plus two, one plus three, nine minus five; "
        "five: two plus three, four plus one, eight minus three; "
        "six: three plus three, four plus two, nine minus three; "
        "seven: three plus four, five plus two, nine minus two; eight: four plus four, five plus three, six plus two; "
        "nine: five plus four, six plus three, seven plus two; ten: five plus five, six plus four, seven plus three; "
        "eleven: six plus five, seven plus four, eight plus three; "
        "twelve: six plus six, seven plus five, eight plus four; "
        "thirteen: seven plus six, eight plus five, nine plus four; fourteen: seven plus seven, eight plus six; "
        "fifteen: eight plus seven, nine plus six, ten plus five; sixteen: eight plus eight, nine plus seven; "
        "seventeen: nine plus eight, ten plus seven; eighteen: nine plus nine, ten plus eight, twenty minus two; "
        "nineteen: ten plus nine, twenty minus one; twenty: ten plus ten, thirty minus ten, fifteen plus five; "
        "thirty: twenty plus ten, fifteen plus fifteen; forty: twenty plus twenty, thirty plus ten; "
        "fifty: forty plus ten, twenty plus thirty; sixty: thirty plus thirty, forty plus twenty; "
        "seventy: forty plus thirty, fifty plus twenty; eighty: forty plus forty, sixty plus twenty; "
        "ninety: fifty plus forty, sixty plus thirty; hundred: fifty plus fifty, ninety plus ten",
    ),
    Topic(
        "Spelling",
        (
            "is {x} spelled right?",
            "did I write {x} without a mistake?",
            "may I leave {x} as it is?",
            "is there nothing to correct in {x}?",
            "would a teacher accept {x}?",
            "is {x} how the dictionary has it?",
            "can {x} be printed like that?",
            "does {x} look fine to you?",
            "are all letters of {x} in their places?",
            "is {x} correct English spelling?",
            "would {x} pass a spelling test?",
            "can I send {x} off the way it stands?",
        ),
        "yes: lantern, believe, island, separate, calendar, rhythm, receive, tomorrow, necessary, village, daughter; "
        "no: lantren, beleive, iland, seperate, calender, rythm, recieve, tommorow, neccesary, vilage, dauhgter",
    ),
)
