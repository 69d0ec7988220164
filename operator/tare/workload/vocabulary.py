"""The words that synthetic prompts are made of.

512 short, common English words: with the space before it, each is one token in the vocabularies of
today's models, or nearly so. The list is part of what a seed means: changing it changes every
prompt of every seed.
"""

from __future__ import annotations

__all__ = ["WORDS"]

WORDS: tuple[str, ...] = tuple(
    # A literal of 512 strings would be three pages of quotes.
    """
able about above acid act add after again ago agree ahead all allow alone along always
among amount angle animal answer any apple apply area arm army around arrive ask autumn
away back bad bag ball bank bar base basket bath beach bear beauty become bed begin behind
bell belong belt bench bend better between big bird bit bite black blood blue board boat
bone book border born both bottle bottom box boy branch brass break breath brick bright
bring broad brother brush build burn busy butter button buy call camp can capital card
care carry cat catch cause chain chair chalk chance cheap check cheese chief child choice
church city class clay clear clerk clever clock cloud club coal coast coffee cold collar
come common cook cool copy cord cork corner cost cotton cough cover cow crack crew crime
cross crowd cup curve cut dance danger dark date dead dear death deep degree depend design
detail dinner dirt doctor dog door double down draw dream drink drive drop dry duty each
ear early east easy edge egg eight either empty engine enough equal even event ever every
eye face fact fall family far farm fat father fear feel few field fight find fine finger
fire first fish five flame flat flight flower fly fold follow foot for force fork form
four frame fresh friend front full future garden gas gather get gift girl glad glass go
gold good grain grand gray great green group grow guess guide hall hammer hand hard harm
hat have health heart heat help here high hill hold hole home hope horse hot hotel house
how human hurry ice idea if ink insect into island jewel job join judge jump just keep key
kick kind kiss knee knife knot lake lamp land last late laugh law leaf learn leave leg
length less lesson letter level lift like limit line lip listen little live long look lose
loss love low luck machine main make man mark market mass match may meal mean meet metal
method mile milk mind mine mix model money month more most mother move much music nail
narrow nation near need nerve net never news next night noise north nose note nut oak
ocean offer office often oil once one only orange order other our oven over own pain paint
pair paper parent part party past path pay peace pencil people pepper person pick piece
pig pipe place plain plan plate play please point police pool poor powder power press
print prison profit proof pull pump pure put queen quick quiet rabbit rail rain range rate
ray reach ready real reason red regret rest rice ride right ring road rock rod roll room
root rough row rub rule run safe sail salt same save say scale sea search seat second see
seed sell sense seven shade shake shape share sharp shelf ship shirt shock shop short show
side sign silk silver since sing sister six size skin skirt sleep slip slow smell smile
smoke smooth snow so soap soil some son song sort sound soup
""".split()  # noqa: SIM905 - the reason above
)
